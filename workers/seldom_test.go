package workers

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

// What River repeats many times a second is said once in ten seconds; anything else is said.
func TestSeldom(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	h := seldom{slog.NewTextHandler(&out, nil), new(sync.Map)}
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range 100 { // of 25 s
		for _, message := range []string{"fetch", "elect"} {
			if err := h.WithAttrs([]slog.Attr{slog.Int("n", i)}).Handle(t.Context(), slog.NewRecord(start.Add(time.Duration(i)*250*time.Millisecond), slog.LevelError, message, 0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n, m := strings.Count(out.String(), "fetch"), strings.Count(out.String(), "elect"); n != 3 || m != 3 {
		t.Errorf("said %d and %d times in 25 s:\n%s", n, m, out.String())
	}
}
