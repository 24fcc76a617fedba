package api

import (
	"testing"
	"time"
)

func TestPreferredWait(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		values []string
		want   time.Duration
	}{
		"none":            {nil, 0},
		"plain":           {[]string{"wait=10"}, 10 * time.Second},
		"quoted":          {[]string{`wait="10"`}, 10 * time.Second},
		"other case":      {[]string{"WAIT=10"}, 10 * time.Second},
		"spaces":          {[]string{" wait = 10 "}, 10 * time.Second},
		"among others":    {[]string{"respond-async, wait=10; foo=bar, handling=lenient"}, 10 * time.Second},
		"second header":   {[]string{"return=minimal", "wait=10"}, 10 * time.Second},
		"the first wins":  {[]string{"wait=10, wait=20", "wait=30"}, 10 * time.Second},
		"cut":             {[]string{"wait=3600"}, time.Minute},
		"cut, beyond int": {[]string{"wait=99999999999999999999999999"}, time.Minute},
		"zero":            {[]string{"wait=0"}, 0},
		"negative":        {[]string{"wait=-10"}, 0},
		"plus":            {[]string{"wait=+10"}, 0},
		"fraction":        {[]string{"wait=1.5"}, 0},
		"no number":       {[]string{"wait"}, 0},
		"empty":           {[]string{"wait="}, 0},
		"half quoted":     {[]string{`wait="10`}, 0},
		"other name":      {[]string{"waits=10"}, 0},
		"a parameter":     {[]string{"return=minimal; wait=10"}, 0},
	} {
		if got := preferredWait(tc.values, maxWait); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
