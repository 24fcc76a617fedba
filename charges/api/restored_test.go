package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// After a restore a refusal for want of stock does not say that the key has no effect: what was done under it may have been lost.
func TestRefusedAfterARestore(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	_, service := open(t, d.url)
	refused := func() reply {
		t.Helper()
		r := d.post(t, alice, newKey(), selling(item("tee", 1)))
		r.wantProblem(t, http.StatusConflict, "insufficient_inventory")
		return r
	}
	if r := refused(); strings.Contains(r.body, "restored") || !strings.Contains(r.body, "the key can be used again") {
		t.Errorf("before: %s", r.body)
	}
	restored, err := service.DeclareRestored(t.Context(), time.Now().Add(-time.Hour), "operator:ada", "snapshot")
	if err != nil {
		t.Fatal(err)
	}
	r := refused()
	told := decode[struct {
		RestoredAt time.Time `json:"restored_at"`
		Detail     string    `json:"detail"`
	}](t, r.body)
	late := d.post(t, alice, newKey(), strings.Replace(goodBody, "{", `{"send_before":"2026-01-02T03:04:05Z",`, 1))
	if p := late.wantProblem(t, http.StatusBadRequest, "invalid_request"); p.fieldNames() != "send_before" || !strings.Contains(late.body, `"restored_at":"`) {
		t.Errorf("too late, and restored: %s", late.body)
	}
	if r := d.post(t, alice, newKey(), strings.Replace(goodBody, "1099", "0", 1)); strings.Contains(r.body, "restored") {
		t.Errorf("what would never have been accepted: %s", r.body)
	}
	if !told.RestoredAt.Equal(restored.DetectedAt) || !strings.Contains(told.Detail, "was restored") || strings.Contains(told.Detail, "can be used again") {
		t.Errorf("after: %s", r.body)
	}
}
