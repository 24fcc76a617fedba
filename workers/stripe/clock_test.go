package stripe

import (
	"net/http"
	"testing"
	"time"

	"github.com/oncepay/oncepay/workers/transport"
)

func dated(at time.Time, took time.Duration) *transport.Answer {
	return &transport.Answer{Status: 200, Header: http.Header{"Date": {at.UTC().Format(http.TimeFormat)}}, Took: took}
}

// I2: ages are judged on this clock. An answer that a suspended machine wakes up to would set it back.
func TestClockDoesNotBelieveOldAnswers(t *testing.T) {
	t.Parallel()
	var c clock
	at := time.Date(2031, 1, 31, 12, 0, 0, 0, time.UTC)
	c.observe(dated(at, time.Second))
	c.observe(dated(at.Add(-25*time.Hour), 25*time.Hour))
	c.observe(dated(at.Add(-25*time.Hour), -time.Second))
	c.observe(&transport.Answer{Status: 200})
	if now, ok := c.now(); !ok || now.Before(at) || now.After(at.Add(time.Minute)) {
		t.Fatalf("the clock shows %s, %t", now, ok)
	}
	c.observe(dated(at.Add(25*time.Hour), time.Second))
	if now, ok := c.now(); !ok || now.Before(at.Add(25*time.Hour)) {
		t.Fatalf("the clock shows %s, %t", now, ok)
	}
}

func TestSinceCountsWhatEitherClockMissed(t *testing.T) {
	t.Parallel()
	then := time.Now()
	if got := since(then, then.Add(time.Second)); got != time.Second {
		t.Errorf("both clocks: %s", got)
	}
	// The wall clock alone went on: Round leaves only its reading.
	if got := since(then, then.Round(0).Add(25*time.Hour)); got != 25*time.Hour {
		t.Errorf("after a suspension: %s", got)
	}
}
