# Writes page.html as a C++ source: cmake -D PAGE=page.html -D OUT=page.cpp -P embed_page.cmake
file(READ ${PAGE} text)
string(FIND "${text}" ")page\"" at)
if(NOT at EQUAL -1)
  message(FATAL_ERROR "${PAGE}: the text )page\" would end the C++ literal")
endif()
file(WRITE ${OUT} "#include \"stages/programs/serve/page.h\"

namespace specdec {

const std::string_view kPage = R\"page(${text})page\";

}  // namespace specdec
")
