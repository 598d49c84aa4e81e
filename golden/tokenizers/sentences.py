"""Sentences, code and oddities for the golden lines; all written for this project."""

SENTENCES = """
A small model guesses a few words, and the large model checks them all at once.
It was late, and the last train to the harbour had already left.
She asked, "Is this seat taken?" and nobody dared to answer.
We'll meet at 7:45 p.m. on 26 Jul 2024; don't be late, won't you?
The café's naïve façade cost £12.50 (about €14.75 or $16).
Wait... what?! No -- that can't be right; they'd've told us.
Der Bär schläft süß auf der großen Straße, während es draußen schneit.
Übermäßig ärgerliche Öfen kühlen größtenteils über Nacht aus.
Où est passé le garçon ? Il a mangé la crème brûlée près de l'hôtel, à Noël.
L'œuvre naïve d'un élève plaît à sa sœur : « déjà vu », dit-elle.
¿Dónde está el niño? ¡Mañana compraré piñones y un paraguas pequeño!
A avó comeu pão de açúcar à tarde; as crianças não quiseram maçãs.
Perché l'università è così lontana? Più tardi arriverò a piedi.
De koning at ’s avonds geen geïmporteerde appels, zei coördinator Zoë.
På ön växer ängsblommor; åskan går över sjön. Blåbær på fjellet, ærlig talt.
Ísland er fallegt: þar búa Ægir, Þór og Ástríður.
Hän käveli yöllä älykkään ystävänsä öisessä metsässä.
Zażółć żółtą łódź, Świętosławie, źrebię ćwiczy.
Řeka teče údolím, kůň pije a děti se smějí při žluté lampě.
Őszi erdőben tűzifát gyűjtött a kövér hőscincér.
Ștefan și Ținca țin în brațe mâța îndărătnică.
Güneşli bir günde İstanbul'un ışıkları ağır ağır söndü.
Chị ấy đọc sách ở trường, còn em bé uống nước cam với bạn.
Trời hôm nay đẹp quá, việc gì cũng thấy dễ dàng.
Маленькая модель предлагает слова, а большая их проверяет.
Ёжик съел яблоко, объём вырос; подъезд №5 закрыт.
Її ґудзик загубився біля під'їзду, є надія знайти.
Љубичаста џигерица њише се крај ђачког дома.
Η γάτα κοιμάται στο παράθυρο, ενώ έξω βρέχει ασταμάτητα· γιατί;
Ὁ ἄνθρωπος ἐν τῷ ᾄσματι ἤκουσε ᾧ θεῷ.
الطقس جميل اليوم، هل نذهب إلى السوق؟ نعم، بعد ٣ ساعات.
القِطَّةُ تَنامُ عَلى الكُرْسيِّ.
این کتاب را می‌خواهم به خانه ببرم، قیمتش ۴۵۰ تومان است.
הילד אכל תפוח ליד הבית, ושתה כוס מים.
שָׁלוֹם לְכֻלָּם, מָה שְּׁלוֹמְכֶם?
आज मौसम अच्छा है, चलो नदी के किनारे घूमते हैं।
क्या आपने १२३ किताबें पढ़ीं? ज़रूर, हृदय से।
আজ আকাশ খুব নীল, চলো নৌকা চালাই। ৫০ টাকা।
இன்று மழை பெய்கிறது; குழந்தைகள் வீட்டில் விளையாடுகிறார்கள்.
ఈ రోజు వాతావరణం చాలా బాగుంది.
ഇന്ന് നല്ല മഴയാണ്, കുട കൊണ്ടുപോകൂ.
ಇಂದು ಬಿಸಿಲು ಜೋರಾಗಿದೆ.
අද කාලගුණය ඉතා හොඳයි.
วันนี้อากาศดีมาก เราไปเดินเล่นริมแม่น้ำกันเถอะ ราคา ๕๐ บาท
ມື້ນີ້ຝົນຕົກ ແຕ່ພວກເຮົາຍັງຍິ້ມ.
ယနေ့ ရာသီဥတု သာယာသည်။
ថ្ងៃនេះមេឃស្រឡះល្អណាស់។
བོད་ཡིག་ནི་མཛེས་པོ་ཡིན།
დღეს კარგი ამინდია, წავიდეთ მდინარეზე. ᲓᲘᲓᲘ ᲐᲡᲝᲔᲑᲘ
Այսօր եղանակը լավ է, գնանք գետափ։
ዛሬ አየሩ ጥሩ ነው፤ ወደ ወንዙ እንሂድ።
今天天气很好，我们去河边散步吧。价格是50元！
這隻貓在窗邊睡著了；外面下著大雨。
今日は天気がいいので、川のほとりを散歩しましょう。
カタカナとﾊﾝｶｸ、ＡＢＣ１２３、「かぎ括弧」も試す。
が と が は違う合成です。
오늘은 날씨가 좋으니 강가를 걸읍시다. 값은 3,000원.
각 나라의 말을 배우자.
ㅋㅋㅋ ㅎㅎ ㅠㅠ 좋아요!!
ᐃᓄᒃᑎᑐᑦ ᏣᎳᎩ ᚠᚢᚦ ⴰⵣⵓⵍ ߒߞߏ
𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝐛𝐨𝐥𝐝 𝟏𝟐𝟑 𐍈 𒀀 𓂀 🜁
Mixed: English русский 中文 العربية עברית 日本語 한국어 ไทย.
Ⅳ ⅷ Ↄ ↈ ½ ¾ ⅓ x² + y³ = z⁴, H₂O, ①②③ ㉑ ㊿ 〇 〡〢〣
№ ™ © ® ℃ ℉ Ω K Å ﬁ ﬂ ﬃ ǅ ǆ Ǆ
∀x∈ℝ: ∃y > 0, |x − y| ≤ ½·ε ⇒ ∑ᵢ aᵢ² ≈ ∫f(t) dt
""".strip().split("\n")

EMOJI = """
👍👍🏽👍🏿 👩‍💻👨‍👩‍👧‍👦 🏳️‍🌈🏴‍☠️
🇩🇪🇫🇷🇯🇵🇺🇸🇦 flags 🏴󠁧󠁢󠁥󠁮󠁧󠁿
❤️ ❤ ☺️ ☎︎ 1️⃣#️⃣*️⃣
🤷🏾‍♀️ shrugs 🧑🏻‍🤝‍🧑🏿 hold hands
😀😃😄text😁 between😆letters
(╯°□°)╯︵ ┻━┻ ¯\\_(ツ)_/¯ ʕ•ᴥ•ʔ
🦙
🦙🦙🦙 llamas 🦙's
👨‍‍👩 ‍ zwj ‌ zwnj
🏿🏾🏽 lone tones ️ lone selector
""".strip().split("\n")

CODE = [
    "def add(a, b=1):\n    \"\"\"Adds.\"\"\"\n    return a + b  # sum\n",
    "for (int i = 0; i < n; ++i) {\n\tx[i] *= 2.5e-3f;\n}\n",
    "template <typename T>\nstd::vector<T> f(const T& x) { return {x, x}; }\n",
    "#include <cstdio>\r\nint main() {\r\n  printf(\"%d\\n\", 0x1F);\r\n}\r\n",
    "__global__ void scale(float* x, int n) {\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < n) x[i] *= 2;\n}\n",
    "scale<<<(n + 255) / 256, 256>>>(x, n);",
    "SELECT name, COUNT(*) FROM users WHERE age >= 18 GROUP BY name;",
    "<div class=\"box\"><p>Hello&nbsp;&amp; bye</p></div>\n\n\n",
    "{\"key\": [1, 2.0, -3e+10, null, true], \"s\": \"\\u00e9\\n\"}",
    "let f = |x: &mut i32| -> Result<(), Box<dyn Error>> { *x += 1; Ok(()) };",
    "const g = async (x) => { await h?.(x ?? `${y}`); };",
    "if [ -f \"$HOME/.rc\" ]; then . \"$HOME/.rc\" 2>/dev/null || true; fi",
    "x = y if z else not w\nassert x != 'it''s' and (a&b)|c^~d<<2",
    "\\begin{equation}\n  \\alpha_{i}^{2} = \\frac{p}{q}\n\\end{equation}",
    "all: main.o\n\tg++ -O2 -o $@ $^\n\n.PHONY: clean\nclean:\n\trm -f *.o\n",
    "- item\n  - nested\n    - deeper\n\n1. one\n2. two\n\n```cpp\nint x;\n```\n",
    "https://example.org/a/b_c-d.html?x=1&y=%20z#part-2",
    "mailto:someone.else+tag@mail.example.com, ftp://127.0.0.1:8080/",
    "C:\\Users\\name\\file (1).txt and /usr/local/bin/g++-12",
    "2024-07-26T12:34:56.789Z +49 (0)30 123456-7 192.168.0.1/24 1,234,567.89",
    "a=b;c+=d;e--;f++;g&&h||!i;j->k::l;m<=n>=o==p!=q<<r>>s;t?u:v",
    "camelCase snake_case SCREAMING_CASE kebab-case PascalCase x1y2z3 v1.2.3-rc4",
    "//////// ======== -------- ******** ######## ........ ________ ~~~~~~~~ !!!!????",
    "f(g(h(i(j(k)))))[0][1]{{{}}}\"\"\"'''```",
]

# Known texts of Llama 3 and texts that its split expression treats in special ways.
FACTS = [
    "Hello, world!", " Hello", "The capital of France is", "The quick brown fox jumps over the lazy dog.",
    "don't It's they're", "1234567890", "3333", "hello !", " \n", "\n\n", "", "   Hello", "    Hello", "\n =",
    "' era", " việc", "việc", "Hi", "Ünïcödé", "a  b   c    d", "\ta", " \ta", "\n \n", "x\n\n\ny", "!!\n\n", " !\r\n",
]

ODD = [
    "Ã©tÃ© dâ€™hiver â€œquotedâ€\x9d", "ÐŸÑ€Ð¸Ð²ÐµÑ‚", "ï»¿text", "\ufefftext\ufeff", "\ufffd\ufffd a\ufffdb",
    "\ue000\uf8ff private \U000f0000 \U0010fffd", "\uffff \ufffe \ufdd0 \U0001ffff \U0010ffff",
    "\u202eright to left\u202c \u2066iso\u2069", "soft\u00adhyphen zero\u200bwidth no\u2060break",
    "\u0000", "a\u0000b", "\u0000\u0000\u0000", "\u0001\u0002\u0003\u001b[31mred\u001b[0m", "\u007f\u0080\u009f",
    "Ġthe Ċ Ġ Ā ā ĠĠ", "Ä Ġ ł Ń ÿ ¡ ¬ ® \u00ad", "▁the ▁▁ </w> ##ing", "\\u00e9 \\n \\x00 %C3%A9 &#233;",
    "ﷺ ꧅ 𒐫 ‱ ⸻", "\ud7ff\ue000", "\u07ff\u0800\uffff\U00010000", "\u0345\u0300 begins with marks",
    "İi̇ıI ſS ßẞ KK ÅÅ", "ǰ ŉ ΐ ΰ և ẖ ẗ ẘ ẙ ẚ", "\u115f\u1160\u3164\uffa0 fillers", "\u2800\u2800 braille blank",
]
