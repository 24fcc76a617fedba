package bench

import (
	"fmt"
	"slices"
	"strings"
)

const (
	ours    = "#0f8a6b"
	other   = "#8c96a3"
	another = "#d9822b"
)

const (
	panelWidth, linesHeight = 440.0, 260.0
	barsTop, barStep        = 36.0, 30.0
	gap                     = 28.0
)

// point is a place on a line: a label's, and what was measured there.
type point struct {
	label string
	Spread
}

// series is a line of the plot.
type series struct {
	name, color string
	points      []point
}

// bar is a bar of the plot, and what is written behind it.
type bar struct {
	label, color string
	value        float64
	text         string
}

// panel is a part of the plot: lines or bars.
type panel struct {
	title, under string
	lines        []series
	bars         []bar
}

// plot draws what was measured.
func (r *Report) plot() []byte {
	var panels []panel
	for _, p := range []panel{r.acceptPanel(), r.latencyPanel(), r.itemPanel(), r.endToEndPanel(), r.growthPanel(), r.drainPanel(), r.costPanel()} {
		if len(p.lines)+len(p.bars) > 0 {
			panels = append(panels, p)
		}
	}
	const columns = 2
	height := gap
	var tops []float64
	for row := range slices.Chunk(panels, columns) {
		tops = append(tops, height)
		tallest := 0.0
		for _, p := range row {
			tallest = max(tallest, p.height())
		}
		height += tallest + gap
	}
	var s svg
	s.begin(columns*panelWidth+(columns+1)*gap, height+12)
	for i, p := range panels {
		p.draw(&s, gap+float64(i%columns)*(panelWidth+gap), tops[i/columns])
	}
	version, _, _ := strings.Cut(r.Settings["server_version"], " ")
	s.text(gap, height-4, "start", faint, "normal", fmt.Sprintf("%d cores, with PostgreSQL %s and the clients on them; every commit synced to disk; "+
		"medians of %v rounds, with the least and the most",
		r.Cores, version, r.Options["rounds"]))
	return s.end()
}

func (p panel) height() float64 {
	if len(p.lines) > 0 {
		return linesHeight
	}
	return barsTop + barStep*float64(len(p.bars))
}

func (p panel) draw(s *svg, x, y float64) {
	s.text(x, y+6, "start", ink, "600", p.title)
	s.text(x, y+23, "start", faint, "normal", p.under)
	if len(p.lines) > 0 {
		p.drawLines(s, x+44, y+54, panelWidth-54, linesHeight-78)
	} else {
		p.drawBars(s, x, y+barsTop, panelWidth)
	}
}

// drawLines puts the labels of the first series at equal distances: each is a multiple of the one before.
func (p panel) drawLines(s *svg, x, y, width, height float64) {
	top := 0.0
	for _, l := range p.lines {
		for _, at := range l.points {
			top = max(top, at.Max)
		}
	}
	marks := steps(top)
	top = marks[len(marks)-1]
	level := func(value float64) float64 { return y + height - height*value/top }
	for _, mark := range marks {
		s.line(x, level(mark), x+width, level(mark), grid, 1)
		s.text(x-6, level(mark)+4, "end", faint, "normal", short(mark))
	}
	labels := p.lines[0].points
	place := func(i int) float64 { return x + width*(float64(i)+0.5)/float64(len(labels)) }
	for i, at := range labels {
		s.text(place(i), y+height+17, "middle", faint, "normal", at.label)
	}
	legend := x - 44
	for _, l := range p.lines {
		var path [][2]float64
		for i, at := range l.points {
			s.line(place(i), level(at.Min), place(i), level(at.Max), l.color, 1.5)
			path = append(path, [2]float64{place(i), level(at.Median)})
		}
		s.path(path, l.color)
		for _, at := range path {
			s.dot(at[0], at[1], l.color)
		}
		s.line(legend, y-15, legend+14, y-15, l.color, 3)
		s.text(legend+19, y-11, "start", ink, "normal", l.name)
		legend += 40 + 6.2*float64(len(l.name))
	}
}

func (p panel) drawBars(s *svg, x, y, width float64) {
	const labels, texts = 150, 90
	most := 0.0
	for _, b := range p.bars {
		most = max(most, b.value)
	}
	for i, b := range p.bars {
		at := y + float64(i)*barStep
		s.text(x+labels-8, at+barStep/2+4, "end", ink, "normal", b.label)
		long := (width - labels - texts) * b.value / max(most, 1e-9)
		s.bar(x+labels, at+4, long, barStep-8, b.color)
		s.text(x+labels+long+7, at+barStep/2+4, "start", ink, "normal", b.text)
	}
}
