// Line plots: where the points lie, what the axes say, and that the file is sound.

#include "bench/line_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace octavo::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The drawing area is 72..736 wide and, from its bottom, 378..92 high.
TEST(PlotSvgTest, PointsLieWhereTheAxesPutThem) {
  LinePlot plot;
  plot.series = {{"a", {{0, 0}, {10, 5}, {20, 10}}, false}};
  const std::string svg = PlotSvg(plot);

  EXPECT_THAT(svg, HasSubstr("d=\"M72.0 378.0L404.0 235.0L736.0 92.0\""));
  EXPECT_THAT(svg, HasSubstr("<circle cx=\"404.0\" cy=\"235.0\""));
}

TEST(PlotSvgTest, ALogarithmicAxisGivesEachDoublingTheSameWidth) {
  LinePlot plot;
  plot.x_scale = AxisScale::kLog2;
  plot.series = {{"a", {{1024, 1}, {2048, 1}, {4096, 1}}, false}};
  const std::string svg = PlotSvg(plot);

  EXPECT_THAT(svg, HasSubstr("d=\"M72.0 92.0L404.0 92.0L736.0 92.0\""));
  EXPECT_THAT(svg, HasSubstr(">1 Ki</text>"));
  EXPECT_THAT(svg, HasSubstr(">2 Ki</text>"));
  EXPECT_THAT(svg, HasSubstr(">4 Ki</text>"));
}

TEST(PlotSvgTest, TicksAreRoundAndTheAxisEndsOnOne) {
  LinePlot plot;
  plot.y_is_share = true;
  plot.series = {{"a", {{0, 0.37}, {1, 0.1}}, false}};
  const std::string svg = PlotSvg(plot);

  for (const char* tick : {">0 %<", ">10 %<", ">20 %<", ">30 %<", ">40 %<"}) {
    EXPECT_THAT(svg, HasSubstr(tick));
  }
  EXPECT_THAT(svg, Not(HasSubstr(">50 %<")));
}

TEST(PlotSvgTest, EverySeriesHasALegendAndABoundHasNoMarkers) {
  LinePlot plot;
  plot.series = {{"first", {{0, 1}, {1, 2}}, false},
                 {"second", {{0, 2}, {1, 1}}, false},
                 {"limit", {{0, 3}, {1, 3}}, true}};
  const std::string svg = PlotSvg(plot);

  for (const char* name : {">first<", ">second<", ">limit<"}) EXPECT_THAT(svg, HasSubstr(name));
  EXPECT_THAT(svg, HasSubstr("class=\"bound\""));
  EXPECT_THAT(svg, HasSubstr("class=\"line s0\""));
  EXPECT_THAT(svg, HasSubstr("class=\"line s1\""));
  EXPECT_THAT(svg, HasSubstr("class=\"f1\""));
  EXPECT_THAT(svg, Not(HasSubstr("class=\"f2\"")));
}

TEST(PlotSvgTest, TextsAreEscaped) {
  LinePlot plot;
  plot.title = "a < b & \"c\"\x01";
  const std::string svg = PlotSvg(plot);

  EXPECT_THAT(svg, HasSubstr(">a &lt; b &amp; &quot;c&quot; </text>"));
}

TEST(PlotSvgTest, PointsWithoutAPlaceAreLeftOut) {
  LinePlot plot;
  plot.x_scale = AxisScale::kLog2;
  plot.series = {
      {"a", {{0, 1}, {2, std::numeric_limits<double>::quiet_NaN()}, {4, 1}, {8, 1}}, false}};
  const std::string svg = PlotSvg(plot);

  EXPECT_THAT(svg, HasSubstr("d=\"M72.0 92.0L736.0 92.0\""));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(PlotSvgTest, APlotWithoutPointsIsStillAPicture) {
  EXPECT_THAT(PlotSvg(LinePlot()), HasSubstr("</svg>"));
}

TEST(PlotSvgTest, BothColourSchemesHaveEveryColour) {
  const std::string svg = PlotSvg(LinePlot());

  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme:dark"));
  for (const char* name : {".paper{", "text{fill:", ".s0{", ".f5{"}) {
    const size_t first = svg.find(name);
    ASSERT_NE(first, std::string::npos);
    EXPECT_NE(svg.find(name, first + 1), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace octavo::bench
