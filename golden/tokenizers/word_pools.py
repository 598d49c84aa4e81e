"""Words and letters from which the synthetic vocabulary and the golden lines are built.

Everything here is common knowledge of a language (its alphabet, its everyday words); nothing
comes from a trained tokenizer's vocabulary.
"""

ENGLISH = """
the of and to in is that it for was on are with as be at by this have from or had not but what all
were when we there can an your which their said if do will each about how up out them then she many
some so these would other into has more her two like him see time could no make than first been its
who now people my made over did down only way find use may water long little very after words called
just where most know get through back much before go good new write our used me man too any day same
right look think also around another came come work three word must because does part even place well
such here take why things help put years different away again off went old number great tell men say
small every found still between name should home big give air line set own under read last never us
left end along while might next sound below saw something thought both few those always looked show
large often together asked house world going want school important until form food keep children feet
land side without boy once animals life enough took sometimes four head above kind began almost live
page got earth need far hand high year mother light parts country father let night following picture
being study second eyes soon times story boys since white days ever paper hard near sentence better
best across during today others however sure means knew try told young miles sun ways thing whole
hear example heard several change answer room sea against top turned learn point city play toward five
using himself usually money seen car morning given ship hot cold river rain snow wind fire stone tree
leaf flower bird fish horse dog cat mouse bread milk apple sugar salt table chair window door garden
street bridge train station market church office letter song music dance paint color red blue green
black yellow silver gold paper book library teacher student lesson question problem reason result value
system model target draft token tokens sample random number probability distribution accept reject
verify speculative decode decoding prefix cache memory page attention layer head matrix vector weight
query key output input sequence position length batch round forward backward error test check file line
string text byte character language english german french code program function class object method
variable constant integer float double value return print define include import export public private
static void compile run build install version release update download server client request response
message network internet website address email account password user group order price product service
company business government president minister law court police army war peace history science nature
energy power machine engine computer screen keyboard phone camera picture video game player team match
winner season summer winter spring autumn january february march april june july august september october
november december monday tuesday wednesday thursday friday saturday sunday north south east west doctor
hospital health body heart blood brain bone skin hair face mouth nose ear eye arm leg foot finger friend
family brother sister son daughter wife husband woman women child baby king queen prince love hate fear
hope dream sleep wake walk run jump swim fly drive ride eat drink cook wash clean open close start stop
begin finish win lose buy sell pay cost spend save send bring carry hold catch throw pull push cut break
build draw sing speak talk listen watch wait stay leave return follow lead grow fall rise move turn pass
reach touch feel seem become remain happen believe understand remember forget explain describe compare
quick brown fox jumps lazy capital france hello please thank sorry yes maybe perhaps really quite rather
already yet ago later early late quickly slowly carefully simple difficult easy strong weak heavy rich
poor happy sad angry tired hungry beautiful ugly clever foolish brave quiet loud bright dark deep wide
narrow short tall thick thin round square flat sharp soft smooth rough wet dry full empty true false
guess choose propose agree knock borrow travel arrive wonder dare marry visit smile laugh cry shout whisper
once twice ever nearly almost probably certainly finally suddenly usually seldom nobody somebody anybody
everything nothing anything everyone someone anyone myself yourself itself ourselves themselves whether
although unless whose whom upon within without toward beside behind beyond above below inside outside
harbour seat ticket journey island mountain forest valley village bottle glass plate spoon knife kettle
soup cheese butter coffee tea juice lemon orange carrot potato onion garlic pepper honey cake cookie
""".split()

ENGLISH_STEMS = """
act add appear apply arrange attend base calculat collect combin command comment commit compar complet
comput concern condition conduct connect consider construct contain continu control convert correct
count cover creat deliver demand depend design detect develop direct discover divid employ enabl engag
enter establish estimat examin exchang execut exist expand expect express extend extract fail form
generat govern guid handl imagin implement improv inform inspect instruct interest invent investigat
invit involv judg limit link load manag mark measur mention modify observ obtain offer operat organ
perform permit plan predict prepar present prevent process produc project protect prov publish receiv
record reduc refer reflect regard regulat relat remov replac report represent requir resolv respond
restor review scal schedul search select separat serv share signal solv sort stor structur suggest
suppl support suppos train transfer transform translat transport treat trust validat visit vot
""".split()
ENGLISH_ENDINGS = "e es ed ing er ers ion ions able ive ment ments or ors al ally ation ations".split()

GERMAN = """
der die das und ist nicht ein eine einen einem einer ich du er sie es wir ihr mit auf für von zu im den
dem des sich auch als an nach wie bei aus durch über unter zwischen gegen ohne um vor hinter neben wenn
weil dass ob aber oder doch noch schon nur sehr immer wieder heute morgen gestern hier dort wo wer was
warum haben hat hatte sein war waren wird werden wurde kann können muss müssen soll sollen will wollen
machen gehen kommen sehen sagen geben nehmen finden denken wissen glauben schreiben lesen sprechen Haus
Straße Stadt Land Welt Zeit Jahr Tag Nacht Wasser Brot Käse Tür Fenster Schule Kinder Mädchen Junge Frau
Mann Vater Mutter Bruder Schwester Freund Größe Gefühl Übung Änderung Öffnung Geschwindigkeit Zeichen
Wörter Sprache Deutsch Rechner Speicher Verteilung Wahrscheinlichkeit Entwurf Ziel schön groß klein alt
neu gut schlecht schnell langsam warm kalt
""".split()

FRENCH = """
le la les un une des et est dans que qui pour pas sur avec ce cette il elle nous vous ils elles je tu on
mais ou où donc car si plus moins très bien mal toujours jamais encore déjà aussi comme quand pourquoi
être avoir fait faire dit dire peut pouvoir veut vouloir voir aller venir prendre donner trouver savoir
maison ville rue pays monde temps jour nuit année eau pain fromage porte fenêtre école enfants fille
garçon femme homme père mère frère sœur ami français langue mot lettre leçon forêt hôtel île naïf ça été
près après première célèbre différence probabilité modèle séquence mémoire vérifier accepté rejeté
""".split()

OTHER_LATIN = """
el los las una que por para con como más pero sus este año también hasta desde mañana niño corazón país
ciudad tiempo mundo agua casa não uma então você coração ação informação também irmão mão pão di il che
per sono della nel questo perché più così città libertà het een van niet zijn maar ook deze wordt og det
på som til ikke være år også från själv människa hän että mutta ovat minä tämä się że jest nie tak być
może święto łódź żółty źródło ćma příliš žluťoučký kůň úpěl ďábelské ódy şehir güzel çocuk ağaç ışık yılın
değil için și să în către țară București és egy hogy nem volt kezdő őszi tűz ve bir bu için
""".split()

VIETNAMESE = """
việc người không được những trong của và có là một các cho với này để khi đã từ về như đến nhiều ngày
năm nước thành phố Việt Nam tiếng học sinh trường sách vở thầy giáo mẹ bố anh chị em bạn bè cơm phở
""".split()

RUSSIAN = """
и в не на что он как это по но она они мы вы из за то все так его было для есть быть если только когда
уже или время год человек день город дом вода хлеб слово язык книга школа друг мать отец сын дочь мир
жизнь работа дело рука глаз голова вопрос ответ большой маленький новый старый хороший модель память
вероятность последовательность распределение також їжа ґанок єдність ў ђак љубав њега џеп
""".split()

GREEK = """
και το να του η της με που την από για είναι στο τα θα δεν οι αυτό στην ένα άνθρωπος πόλη σπίτι νερό
ψωμί λόγος γλώσσα βιβλίο σχολείο φίλος μητέρα πατέρας κόσμος ζωή ημέρα νύχτα ώρα χρόνος καλός μεγάλος
""".split()

ARABIC_ETC = """
في من على إلى هذا التي كان أن لا ما هو هي مع كل بعد قبل يوم كتاب بيت ماء خبز مدينة لغة مدرسة السلام مرحبا
של את על לא הוא היא זה עם כל גם יום ספר בית מים לחם עיר שפה שלום עולם است این که را به از با برای یک
में के की है और से को का यह नहीं पर एक हम घर पानी रोटी भाषा नमस्ते दुनिया किताब আমি তুমি জল বই ভাষা
ที่ และ ใน การ เป็น ของ ไม่ มี ได้ น้ำ บ้าน ภาษา หนังสือ สวัสดี ประเทศไทย தமிழ் நீர் வீடு மொழி
და არის ენა წყალი სახლი გამარჯობა և է լեզու ջուր տուն բարեւ ሰላም ውሃ ቤት
""".split()

EAST_ASIAN = """
的 一 是 不 了 人 我 在 有 他 这 中 大 来 上 国 个 到 说 们 为 子 和 你 地 出 道 也 时 年 中国 我们 你好 世界 语言
学习 模型 今天 天气 很好 水 面包 城市 書 學校 電腦 こんにちは です ます した して から この その それ ある いる する こと
もの ない 世界 言葉 日本 日本語 東京 学校 先生 ありがとう カタカナ コンピュータ テスト モデル 안녕하세요 입니다 그리고
하는 에서 사람 나라 물 집 학교 언어 한국어 오늘 날씨 좋다 세계
""".split()

CODE = """
def class return import from as if elif else for while in not and or is None True False try except finally
raise with lambda yield pass break continue global nonlocal assert del async await self print range len
int float str list dict set tuple bool int32_t uint8_t size_t const auto static void char double struct
union enum template typename namespace using std vector string cout endl public private protected virtual
override include define ifdef ifndef endif pragma nullptr sizeof typedef switch case default goto inline
extern unsigned signed long short function var let new this typeof instanceof undefined null console log
document window export require module interface implements extends package final throws throw catch fn mut
impl trait pub use crate match Some Ok Err unwrap println SELECT FROM WHERE INSERT INTO VALUES UPDATE
DELETE JOIN GROUP ORDER BY html head body div span href src img script style width height color https http
www com org net json xml utf UTF ASCII cuda kernel threadIdx blockIdx blockDim global shared sync get put
post args kwargs init main test index value key data node item count size name type file path line row col
""".split()

# First and last code point of the alphabets and syllabaries that single characters are taken from.
RANGES = [
    (0x00C0, 0x024F), (0x0386, 0x03CE), (0x0400, 0x045F), (0x0490, 0x04FF), (0x0531, 0x0556),
    (0x0561, 0x0587), (0x05B0, 0x05C2), (0x05D0, 0x05EA), (0x0620, 0x0652), (0x0660, 0x0669),
    (0x0671, 0x06D3), (0x06F0, 0x06F9), (0x0905, 0x0939), (0x093E, 0x094D), (0x0966, 0x096F),
    (0x0985, 0x09B9), (0x0A85, 0x0AB9), (0x0B85, 0x0BB9), (0x0C05, 0x0C39), (0x0E01, 0x0E3A),
    (0x0E40, 0x0E4E), (0x10A0, 0x10C5), (0x10D0, 0x10F0), (0x1100, 0x1112), (0x1161, 0x1175),
    (0x1200, 0x1248), (0x1E00, 0x1EFF), (0x2010, 0x2027), (0x2030, 0x205E), (0x2070, 0x208E),
    (0x20A0, 0x20BF), (0x2150, 0x2188), (0x2190, 0x21FF), (0x2200, 0x22FF), (0x2460, 0x24FF),
    (0x2500, 0x25FF), (0x2600, 0x27BF), (0x3001, 0x3011), (0x3041, 0x3096), (0x30A1, 0x30FA),
    (0x4E00, 0x62FF), (0xAC00, 0xB3FF), (0xFF01, 0xFF5E), (0x1F300, 0x1F64F), (0x1F680, 0x1F6C5),
]

# Alphabets for pseudo-words: consonants (or initial letters), vowels (or signs), share of the words.
ALPHABETS = [
    ("b c d f g h j k l m n p r s t v w br ch cl cr dr fl gr pl pr qu sc sh sl sp st str th tr wh",
     "a e i o u ai ea ee ou io ar er or al en in on an", 44),
    ("b d f g h k l m n p r s t w z sch ch pf st sp tr kr bl gr ß", "a e i o u ä ö ü ei au ie eu er en", 10),
    ("b c d f g j l m n p r s t v ch br pr tr gn ç", "a e i o u é è ê à ù ô î oi ai eau on en", 10),
    ("b c č ć d đ f g h j k l ł m n ń p r ř s š ś t v z ž ż", "a ą e ę ě i í o ó u ů y ý á é", 4),
    ("đ b c ch g h kh l m n ng nh ph qu s t th tr v x", "ă â ê ô ơ ư ạ ả ấ ầ ẩ ậ ế ề ệ ố ồ ộ ớ ờ ợ ứ ừ ự", 3),
    ("б в г д ж з к л м н п р с т ф х ц ч ш щ ст пр тр вз", "а е и о у ы э ю я ой ий ой ать ов", 9),
    ("β γ δ ζ θ κ λ μ ν ξ π ρ σ τ φ χ ψ", "α ε η ι ο υ ω ά έ ή ί ό ύ ώ ου αι ει ος", 4),
    ("ب ت ث ج ح خ د ر ز س ش ص ط ع غ ف ق ك ل م ن ه ال", "ا و ي ى ة َ ِ ُ", 4),
    ("א ב ג ד ה ז ח ט כ ל מ נ ס ע פ צ ק ר ש ת", "ו י ה ים ות", 3),
    ("क ख ग घ च ज ट ड त द न प ब भ म य र ल व श स ह", "ा ि ी ु ू े ै ो ौ ् ं", 4),
    ("ก ข ค ง จ ช ด ต ท น บ ป พ ม ย ร ล ว ส ห อ", "ะ า ิ ี ึ ื ุ ู เ แ โ ่ ้ ์", 3),
    ("ბ გ დ ვ ზ თ კ ლ მ ნ პ რ ს ტ ფ ქ შ ჩ ც", "ა ე ი ო უ", 2),
    ("か き く け こ さ し す せ そ た ち つ て と な に ぬ ね の は ひ ふ", "ま み む め も や ゆ よ ら り る れ ろ わ ん", 3),
    ("カ キ ク ケ コ サ シ ス セ ソ タ チ ツ テ ト ナ ニ", "ア イ ウ エ オ ー ッ ン ル ラ ム", 3),
]
