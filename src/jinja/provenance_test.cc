// Which bytes of the output the template spelled. In these tests they are marked with [ and ].

#include <gtest/gtest.h>

#include <string>

#include "jinja/jinja_test_util.h"

namespace octavo::jinja {
namespace {

std::string Marked(std::string_view source, std::string_view variables = R"({"x": "abc"})") {
  const Result<TrackedString> text = testing::Render(source, variables);
  if (!text.ok()) return text.status().message();
  std::string marked;
  size_t done = 0;
  for (const ByteRange& range : text->trusted()) {
    EXPECT_LT(range.begin, range.end);
    EXPECT_TRUE(range.begin > done || (range.begin == 0 && done == 0)) << "adjacent ranges";
    marked += text->bytes().substr(done, range.begin - done);
    marked += "[" + std::string(text->bytes().substr(range.begin, range.end - range.begin)) + "]";
    done = range.end;
  }
  marked += text->bytes().substr(done);
  return marked;
}

TEST(ProvenanceTest, TextAndStringsOfTheTemplateAreTrusted) {
  EXPECT_EQ(Marked("one{{ 'two' }}{{ x }}three"), "[onetwo]abc[three]");
  EXPECT_EQ(Marked("{{ 'a' + x + 'b' ~ 'c' ~ x }}"), "[a]abc[bc]abc");
  EXPECT_EQ(Marked("{{ x + x }}{{ 5 }}{{ none }}{{ true }}"), "abcabc5NoneTrue");
}

TEST(ProvenanceTest, GoesThroughVariablesMacrosLoopsAndBlocks) {
  EXPECT_EQ(Marked("{% set a = '<' ~ x ~ '>' %}{{ a }}"), "[<]abc[>]");
  EXPECT_EQ(Marked("{% set a %}<{{ x }}>{% endset %}{{ a }}"), "[<]abc[>]");
  EXPECT_EQ(Marked("{% macro m(y) %}<{{ y }}>{% endmacro %}{{ m(x) ~ m('k') }}"), "[<]abc[><k>]");
  EXPECT_EQ(Marked("{% for c in x ~ 'd' %}{{ c }}{% endfor %}"), "abc[d]");
  EXPECT_EQ(Marked("{% set ns = namespace(a='<') %}{% set ns.a = ns.a + x %}{{ ns.a }}"), "[<]abc");
  EXPECT_EQ(Marked("{% filter upper %}<a{{ x }}{% endfilter %}"), "[<A]ABC");
  EXPECT_EQ(
      Marked("{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}<{{ x }}{% endcall %}"),
      "[<]abc");
  EXPECT_EQ(Marked("{{ ['<', x][0] }}{{ {'k': '<', 'l': x}.l }}"), "[<]abc");
}

TEST(ProvenanceTest, GoesThroughSlicesAndMethods) {
  EXPECT_EQ(Marked("{{ ('<' + x + '>')[1:] }}"), "abc[>]");
  EXPECT_EQ(Marked("{{ ('<' + x)[::-1] }}"), "cba[<]");
  EXPECT_EQ(Marked("{{ (' <' + x + ' ').strip() }}"), "[<]abc");
  EXPECT_EQ(Marked("{{ (x + '|' + x).split('|')[0] }}"), "abc");
  EXPECT_EQ(Marked("{{ ('<|' + x + '|>').split('|') | join('-') }}"), "[<-]abc[->]");
  EXPECT_EQ(Marked("{{ x.replace('b', '<') }}"), "a[<]c");
  EXPECT_EQ(Marked("{{ 'a<b'.replace('<', x) }}"), "[a]abc[b]");
  EXPECT_EQ(Marked("{{ '%s<%s' % (x, 'y') }}"), "abc[<y]");
  EXPECT_EQ(Marked("{{ '{}<{}'.format(x, 'y') }}"), "abc[<y]");
  EXPECT_EQ(Marked("{{ '-'.join([x, '<']) }}"), "abc[-<]");
}

TEST(ProvenanceTest, GoesThroughFilters) {
  EXPECT_EQ(Marked("{{ ('< ' ~ x) | upper | lower | title | capitalize | trim }}"), "[< ]abc");
  EXPECT_EQ(Marked("{{ [x, '<'] | join('|') }}"), "abc[|<]");
  EXPECT_EQ(Marked("{{ ('<\n' ~ x) | indent(1) }}"), "[<]\n abc");
  EXPECT_EQ(Marked("{{ '<' | safe ~ x }}{{ x | default('<') }}{{ y | default('<') }}"),
            "[<]abcabc[<]");
  EXPECT_EQ(Marked("{{ ['<', x] | tojson }}{{ ['<', x] }}"), R"(["[<]", "abc"]['[<]', 'abc'])");
  EXPECT_EQ(Marked("{{ ['<', x] | map('upper') | join }}{{ [x, '<'] | last }}"), "[<]ABC[<]");
  EXPECT_EQ(Marked("{{ '<\n' | tojson }}"), R"("[<]\n")");
}

TEST(ProvenanceTest, NamesThatTheInputChoseAreUntrusted) {
  EXPECT_EQ(Marked("{{ d }}{{ d | tojson }}", R"({"d": {"<": ">"}})"), R"({'<': '>'}{"<": ">"})");
  EXPECT_EQ(Marked("{% for k in d %}{{ k }}{% endfor %}", R"({"d": {"<": ">"}})"), "<");
}

}  // namespace
}  // namespace octavo::jinja
