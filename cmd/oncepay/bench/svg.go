package bench

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// svg is a drawing in the making. It has a ground of its own, so that it can be read on a dark page as well.
type svg struct{ strings.Builder }

const (
	ink   = "#1f2933"
	faint = "#7b8794"
	grid  = "#e4e7eb"
)

func (s *svg) begin(width, height float64) {
	fmt.Fprintf(s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%[1]g" height="%[2]g" `+
		`font-family="-apple-system,'Segoe UI',Helvetica,Arial,sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(s, `<rect width="%g" height="%g" rx="8" fill="#ffffff"/>`+"\n", width, height)
}

func (s *svg) end() []byte {
	s.WriteString("</svg>\n")
	return []byte(s.String())
}

func (s *svg) text(x, y float64, anchor, color, weight, text string) {
	fmt.Fprintf(s, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s" font-weight="%s">%s</text>`+"\n", x, y, anchor, color, weight, html.EscapeString(text))
}

func (s *svg) line(x1, y1, x2, y2 float64, color string, width float64) {
	fmt.Fprintf(s, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%g"/>`+"\n", x1, y1, x2, y2, color, width)
}

func (s *svg) bar(x, y, width, height float64, color string) {
	fmt.Fprintf(s, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2" fill="%s"/>`+"\n", x, y, max(1, width), height, color)
}

func (s *svg) dot(x, y float64, color string) {
	fmt.Fprintf(s, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>`+"\n", x, y, color)
}

func (s *svg) path(points [][2]float64, color string) {
	var d strings.Builder
	for i, p := range points {
		fmt.Fprintf(&d, "%c%.1f %.1f", "ML"[min(i, 1)], p[0], p[1])
	}
	fmt.Fprintf(s, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", d.String(), color)
}

// steps are round numbers from 0 to at least top, few enough to be read.
func steps(top float64) []float64 {
	if top <= 0 {
		return []float64{0, 1}
	}
	size := math.Pow(10, math.Floor(math.Log10(top)))
	for _, part := range []float64{0.1, 0.2, 0.25, 0.5, 1, 2} {
		if step := part * size; top/step <= 5 {
			all := []float64{0}
			for all[len(all)-1] < top {
				all = append(all, step*float64(len(all)))
			}
			return all
		}
	}
	return []float64{0, top}
}
