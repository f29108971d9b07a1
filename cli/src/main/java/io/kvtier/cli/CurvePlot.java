package io.kvtier.cli;

import java.util.ArrayList;
import java.util.Formatter;
import java.util.List;
import java.util.Locale;
import java.util.function.DoubleFunction;

/** Curves over a logarithmic share, drawn as SVG. */
final class CurvePlot {
  private static final int WIDTH = 860;
  private static final int HEIGHT = 480;
  private static final int LEFT = 70;
  private static final int RIGHT = 670;
  private static final int TOP = 50;
  private static final int BOTTOM = 410;
  private static final double[] GRID_X = {0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1};
  private static final String[] COLOURS = {
    "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#e377c2", "#17becf",
    "#7f7f7f", "#bcbd22"
  };

  /** A point of a curve. */
  record Point(double x, double y) {}

  private record Curve(String name, List<Point> points) {}

  private final String title;
  private final String labelX;
  private final String labelY;
  private final double minX;
  private final double maxX;
  private final DoubleFunction<String> tick;
  private final List<Curve> curves = new ArrayList<>();

  /**
   * An empty plot.
   *
   * @param minX the left edge, above 0
   * @param maxX the right edge, above {@code minX}
   * @param tick what stands below a share
   */
  CurvePlot(
      String title,
      String labelX,
      String labelY,
      double minX,
      double maxX,
      DoubleFunction<String> tick) {
    this.title = title;
    this.labelX = labelX;
    this.labelY = labelY;
    this.minX = minX;
    this.maxX = maxX;
    this.tick = tick;
  }

  /** A share in percent. */
  static String percent(double share) {
    return String.valueOf(Math.round(1000 * share) / 10.0).replace(".0", "") + " %";
  }

  void add(String name, List<Point> points) {
    curves.add(new Curve(name, points));
  }

  String svg() {
    double maxY =
        curves.stream().flatMap(c -> c.points.stream()).mapToDouble(Point::y).max().orElse(0);
    double top = Math.max(0.1, Math.ceil(maxY * 10) / 10);
    Formatter svg = new Formatter(Locale.ROOT);
    svg.format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
            + "font-family=\"sans-serif\" font-size=\"13\">%n"
            + "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>%n",
        WIDTH, HEIGHT, WIDTH, HEIGHT);
    text(svg, (LEFT + RIGHT) / 2.0, 28, "middle", title);
    text(svg, (LEFT + RIGHT) / 2.0, BOTTOM + 44, "middle", labelX);
    text(svg, LEFT, TOP - 10, "middle", labelY);
    for (double x : GRID_X) {
      if (x >= minX && x <= maxX) {
        line(svg, atX(x), TOP, atX(x), BOTTOM);
        text(svg, atX(x), BOTTOM + 20, "middle", tick.apply(x));
      }
    }
    for (int i = 0; i <= 5; i++) {
      double y = top * i / 5;
      line(svg, LEFT, atY(y, top), RIGHT, atY(y, top));
      text(svg, LEFT - 8, atY(y, top) + 4, "end", String.valueOf(Math.round(100 * y) / 100.0));
    }
    for (int c = 0; c < curves.size(); c++) {
      String colour = COLOURS[c % COLOURS.length];
      svg.format("<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour);
      for (Point point : curves.get(c).points) {
        svg.format("%.1f,%.1f ", atX(point.x), atY(point.y, top));
      }
      svg.format("\"/>%n");
      int legend = TOP + 8 + 20 * c;
      svg.format(
          "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"%s\" stroke-width=\"3\"/>%n",
          RIGHT + 16, legend, RIGHT + 36, legend, colour);
      text(svg, RIGHT + 42, legend + 4, "start", curves.get(c).name);
    }
    return svg.format("</svg>%n").toString();
  }

  private double atX(double x) {
    return LEFT + (RIGHT - LEFT) * Math.log(x / minX) / Math.log(maxX / minX);
  }

  private static double atY(double y, double top) {
    return BOTTOM - (BOTTOM - TOP) * y / top;
  }

  private static void line(Formatter svg, double x1, double y1, double x2, double y2) {
    svg.format(
        "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#dddddd\"/>%n",
        x1, y1, x2, y2);
  }

  private static void text(Formatter svg, double x, double y, String anchor, String text) {
    svg.format(
        "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>%n",
        x, y, anchor, text.replace("&", "&amp;").replace("<", "&lt;"));
  }
}
