package picture

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/show"
)

// Sizes in pixels.
const (
	width     = 1200.0
	margin    = 16.0
	fontSize  = 12.0
	lineStep  = 18.0            // between two lines of text
	perColumn = fontSize * 0.68 // no less than a character takes in any usual font, on average
)

// palette are colours that people with impaired colour vision can tell apart, and dashes for more curves than
// there are colours.
var (
	palette = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#333333"}
	dashes  = []string{"", "6 3", "2 2", "8 3 2 3"}
)

// stroke returns the attributes of the curve with this number.
func stroke(i int) string {
	text := fmt.Sprintf(`stroke="%s" stroke-width="1.5" fill="none"`, palette[i%len(palette)])
	if dash := dashes[i/len(palette)%len(dashes)]; dash != "" {
		text += fmt.Sprintf(` stroke-dasharray="%s"`, dash)
	}
	return text
}

// canvas is an SVG in the making.
type canvas struct{ bytes.Buffer }

func (c *canvas) printf(format string, args ...any) { fmt.Fprintf(&c.Buffer, format, args...) }

// escaped returns a text for the inside of an element. The package encoding/xml would make the start of every
// command slower.
func escaped(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(show.Clean(s))
}

// textWidth returns no less than a text takes.
func textWidth(s string) float64 { return float64(show.Width(s)) * perColumn }

// text writes a text that has room for so many pixels, and shortens it to them. anchor is start, middle or end.
func (c *canvas) text(class, anchor string, x, y, room float64, s string) {
	s = show.Cut(show.Clean(s), int(room/perColumn))
	c.printf("<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", class, x, y, anchor, escaped(s))
}

// legend writes an entry for each name, and returns the height that they take. Entries stand beside each other
// as far as there is room.
func (c *canvas) legend(class string, left, top, room float64, names []string, mark func(i int, x, y float64)) float64 {
	const sample, gap = 26.0, 20.0
	x, y := left, top
	for i, name := range names {
		wide := min(sample+6+textWidth(name)+gap, room)
		if x > left && x+wide > left+room {
			x, y = left, y+lineStep
		}
		mark(i, x, y)
		c.text(class, "start", x+sample+6, y+fontSize*0.35, room-sample-6, name)
		x += wide
	}
	return y - top + lineStep
}

// curveMark is the mark of a curve in a legend.
func (c *canvas) curveMark(i int, x, y float64) {
	c.printf("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x, y, x+26, y, stroke(i))
}

// boxMark is the mark of a bar in a legend.
func (c *canvas) boxMark(i int, x, y float64) {
	c.printf("<rect x=\"%.1f\" y=\"%.1f\" width=\"26\" height=\"8\" fill=\"%s\"/>\n", x, y-4, palette[i%len(palette)])
}

// whole returns the picture with its size.
func (c *canvas) whole(height float64, title string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" "+
		"width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"%.0f\">\n"+
		"<title>%s</title>\n<rect x=\"0\" y=\"0\" width=\"%.0f\" height=\"%.0f\" fill=\"#ffffff\"/>\n",
		width, height, width, height, fontSize, escaped(title), width, height)
	return append(append([]byte(b.String()), c.Bytes()...), "</svg>\n"...)
}
