package frame

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
)

func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	journal := &Journal{}
	w := NewWebhooks(NewClock(journal), journal, &Faults{}, slog.New(slog.DiscardHandler), nil)
	post := func(from, to int, state State) {
		for i := from; i < to; i++ {
			id := fmt.Sprint(i)
			w.Post(&Parcel{ID: id, Events: []Event{{ID: id}}, Delivery: Delivery{State: state}})
		}
	}
	post(0, 5, Pending)
	post(5, 3*maxParcels, Recorded)
	events := w.Events()
	if len(events) > 2*maxParcels || len(w.byID) != len(events) {
		t.Fatalf("%d events, %d by id", len(events), len(w.byID))
	}
	for i := range 5 {
		if events[i].ID != fmt.Sprint(i) {
			t.Fatalf("pending events were dropped: %+v", events[i])
		}
	}
	if newest := events[len(events)-1].ID; newest != fmt.Sprint(3*maxParcels-1) {
		t.Fatalf("the newest is %s", newest)
	}
}

func TestRewrite(t *testing.T) {
	t.Parallel()
	const event = `{"id":"evt_1","api_version":"v1","data":{"object":{"amount":12345678901234567,"note":"<&>"}}}`
	for _, c := range []struct {
		changes map[string]any
		version string
		want    string // "" for an error
	}{
		{nil, "", event},
		{nil, "v2", `{"api_version":"v2","data":{"object":{"amount":12345678901234567,"note":"\u003c\u0026\u003e"}},"id":"evt_1"}`},
		{map[string]any{"data.object.amount": 1, "livemode": true}, "", `{"api_version":"v1","data":{"object":{"amount":1,"note":"\u003c\u0026\u003e"}},"id":"evt_1","livemode":true}`},
		{map[string]any{"id.part": 1}, "", ""},
		{map[string]any{"other.part": 1}, "", ""},
	} {
		got, err := rewrite(json.RawMessage(event), c.changes, c.version)
		if string(got) != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%v %q: got %s, %v", c.changes, c.version, got, err)
		}
	}
	if got, err := rewrite(json.RawMessage(`{"event":"delivered"}`), nil, "v2"); err != nil || string(got) != `{"event":"delivered"}` {
		t.Errorf("an api_version was added: %s, %v", got, err)
	}
}
