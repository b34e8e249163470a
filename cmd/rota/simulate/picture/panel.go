package picture

import (
	"fmt"
	"strings"
)

// panel is one diagram: axes around a plot.
type panel struct {
	title string
	x, y  axis
	// of the plot
	left, top, width, height float64
}

// Room around a plot, for labels and titles.
const (
	roomLeft   = 76.0
	roomRight  = 24.0 // half of the last label
	roomTop    = 26.0
	roomBottom = 44.0
)

// series is a curve: as many points as every other one of the panel.
type series struct {
	name string
	x, y []float64
}

// newPanel returns a panel in a rectangle.
func newPanel(title string, x, y axis, left, top, wide, high float64) *panel {
	return &panel{title: title, x: x, y: y, left: left + roomLeft, top: top + roomTop,
		width: wide - roomLeft - roomRight, height: high - roomTop - roomBottom}
}

func (p *panel) px(v float64) float64 { return p.left + p.width*p.x.at(v) }

func (p *panel) py(v float64) float64 { return p.top + p.height*(1-p.y.at(v)) }

// frame draws the title, the axes, their labels and a grid.
func (p *panel) frame(c *canvas) {
	bottom := p.top + p.height
	c.text("panel-title", "start", p.left, p.top-9, p.width-textWidth(p.y.title)-10, p.title)
	c.printf("<g class=\"axis\">\n")
	for _, v := range p.x.ticks {
		c.printf("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#e0e0e0\"/>\n", p.px(v), p.top, p.px(v),
			bottom+4)
		c.text("x-tick", "middle", p.px(v), bottom+17, 2*roomRight+40, label(v))
	}
	c.printf("</g>\n<g class=\"axis\">\n")
	for _, v := range p.y.ticks {
		c.printf("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#e0e0e0\"/>\n", p.left-4, p.py(v),
			p.left+p.width, p.py(v))
		c.text("y-tick", "end", p.left-7, p.py(v)+4, roomLeft-7, label(v))
	}
	c.printf("</g>\n")
	c.printf("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" stroke=\"#606060\"/>\n", p.left,
		p.top, p.width, p.height)
	c.text("x-title", "middle", p.left+p.width/2, bottom+34, p.width, p.x.title)
	c.text("y-title", "end", p.left+p.width, p.top-9, p.width/2, p.y.title)
}

// curves draws the series.
func (p *panel) curves(c *canvas, all []series) {
	for i, s := range all {
		points := make([]string, len(s.x))
		for k := range s.x {
			points[k] = fmt.Sprintf("%.1f,%.1f", p.px(s.x[k]), p.py(s.y[k]))
		}
		c.printf("<polyline class=\"series\" %s points=\"%s\"><title>%s</title></polyline>\n", stroke(i),
			strings.Join(points, " "), escaped(s.name))
	}
}
