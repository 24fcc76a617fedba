package api_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/oncepay/oncepay/charges"
)

func TestBadBodies(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	member := func(text string) string { return strings.Replace(goodBody, "{", "{"+text+",", 1) }
	key := newKey()
	for name, tc := range map[string]struct{ body, fields string }{
		"empty":                    {"", "body"},
		"blank":                    {" \n", "body"},
		"null":                     {"null", "body"},
		"array":                    {"[]", "body"},
		"string":                   {`"hunter2"`, "body"},
		"two values":               {goodBody + goodBody, "body"},
		"trailing text":            {goodBody + "hunter2", "body"},
		"byte order mark":          {"\ufeff" + goodBody, "body"},
		"cut short":                {goodBody[:30], "body"},
		"same member twice":        {member(`"amount":999`), "amount"},
		"same but for letter case": {member(`"Amount":999`), "Amount"},
		"unknown member":           {member(`"hunter":2`), "hunter"},
		"NUL in description":       {member(`"description":"hunter2\u0000"`), "description"},
		"NUL in metadata value":    {member(`"metadata":{"a":"hunter2\u0000"}`), "metadata.a"},
		"lone surrogate":           {member(`"description":"hunter2\ud800"`), "description"},
		"bad UTF-8":                {member("\"description\":\"hunter2\xff\""), "description"},
		"amount as text":           {strings.Replace(goodBody, "1099", `"hunter2"`, 1), "amount"},
		"fraction":                 {strings.Replace(goodBody, "1099", "1000.4", 1), "amount"},
		"exponent":                 {strings.Replace(goodBody, "1099", "1e3", 1), "amount"},
		"leading zero":             {strings.Replace(goodBody, "1099", "01099", 1), "amount"},
		"negative":                 {strings.Replace(goodBody, "1099", "-1", 1), "amount"},
		"all missing":              {"{}", "amount currency payment_method"},
		"three-decimal currency":   {`{"amount":12345,"currency":"kwd","payment_method":"pm_card_visa"}`, "amount"},
		"descriptor":               {member(`"statement_descriptor_suffix":"hunter<2"`), "statement_descriptor_suffix"},
		"two addresses":            {member(`"receipt_email":"hunter2@b.com,c@d.com"`), "receipt_email"},
		"header in address":        {member(`"receipt_email":"a@b.com\r\nBcc: hunter2@y.z"`), "receipt_email"},
		"past deadline":            {member(`"send_before":"2020-01-01T00:00:00Z"`), "send_before"},
		"our own metadata":         {member(`"metadata":{"oncepay_key":"hunter2"}`), "metadata.oncepay_key"},
		"10,001 nested arrays":     {strings.Repeat("[", 10_001), "body"},
		"metadata without end":     {member(`"metadata":{` + manyMembers(20_000) + `}`), "metadata"},
	} {
		r := d.post(t, alice, key, tc.body)
		p := r.wantProblem(t, http.StatusBadRequest, "invalid_request")
		if got := p.fieldNames(); got != tc.fields || strings.Contains(r.body, "hunter2") {
			t.Errorf("%s: %s", name, r.body)
		}
		for _, f := range p.Fields {
			if f.Reason == "" {
				t.Errorf("%s: %s has no reason", name, f.Field)
			}
		}
	}
	deep := member(`"metadata":` + strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001))
	if p := d.post(t, alice, key, deep).wantProblem(t, http.StatusBadRequest, "invalid_request"); !strings.HasPrefix(p.fieldNames(), "metadata") {
		t.Errorf("10,001 arrays within metadata: %+v", p)
	}
	d.wantRows(t, 0)
	d.accept(t, alice, key, goodBody) // nothing was stored under the key
	d.wantRows(t, 1)
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"k%d":"v",`, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

func TestMediaTypes(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := io.WriteString(z, goodBody); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	key := newKey()
	for name, tc := range map[string]struct {
		body    string
		headers []string
	}{
		"none":             {goodBody, nil},
		"form":             {"amount=1099", []string{"Content-Type", "application/x-www-form-urlencoded"}},
		"text":             {goodBody, []string{"Content-Type", "text/plain"}},
		"problem":          {goodBody, []string{"Content-Type", "application/problem+json"}},
		"other charset":    {goodBody, []string{"Content-Type", "application/json; charset=iso-8859-1"}},
		"other parameter":  {goodBody, []string{"Content-Type", "application/json; profile=x"}},
		"malformed":        {goodBody, []string{"Content-Type", "application/json; charset"}},
		"two types":        {goodBody, []string{"Content-Type", "application/json", "Content-Type", "application/json"}},
		"gzip":             {zipped.String(), []string{"Content-Type", "application/json", "Content-Encoding", "gzip"}},
		"two codings":      {goodBody, []string{"Content-Type", "application/json", "Content-Encoding", "identity", "Content-Encoding", "br"}},
		"a list of coding": {goodBody, []string{"Content-Type", "application/json", "Content-Encoding", "identity, gzip"}},
	} {
		headers := append([]string{"Idempotency-Key", key}, tc.headers...)
		r := d.send(t, alice, http.MethodPost, "/charge", tc.body, headers...)
		r.wantProblem(t, http.StatusUnsupportedMediaType, "unsupported_media_type")
		if t.Failed() {
			t.Fatalf("in case %q", name)
		}
	}
	d.wantRows(t, 0)
	for _, headers := range [][]string{
		{"Content-Type", "application/json; charset=utf-8"},
		{"Content-Type", `Application/JSON;Charset="UTF-8"`},
		{"Content-Type", "application/json", "Content-Encoding", "identity"},
	} {
		r := d.send(t, alice, http.MethodPost, "/charge", goodBody, append([]string{"Idempotency-Key", key}, headers...)...)
		if r.status != http.StatusAccepted {
			t.Errorf("%q: %d %s", headers, r.status, r.body)
		}
	}
	d.wantRows(t, 1)
}

// Not parallel: it measures the memory of the whole process.
func TestHugeBodiesStayOutOfMemory(t *testing.T) {
	d := deploy(t, nil)
	const size = 50 << 20
	d.get(t, alice, "/charges") // what is made once is not measured
	for name, declared := range map[string]int64{"declared": size, "chunked": -1} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.base+"/charge", io.LimitReader(spaces{}, size))
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = declared
		req.Header.Set("Authorization", "Bearer "+alice)
		req.Header.Set("Idempotency-Key", newKey())
		req.Header.Set("Content-Type", "application/json")
		d.do(t, req).wantProblem(t, http.StatusRequestEntityTooLarge, "too_large")
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > size/4 {
			t.Errorf("%s: %d MiB were allocated", name, grown>>20)
		}
	}
	many := strings.Replace(goodBody, "{", `{"metadata":{`+manyMembers(100_000)+`},`, 1)
	d.post(t, alice, newKey(), many).wantProblem(t, http.StatusRequestEntityTooLarge, "too_large")
	d.wantRows(t, 0)

	full := goodBody + strings.Repeat(" ", charges.MaxRequestBytes-len(goodBody))
	d.post(t, alice, newKey(), full+" ").wantProblem(t, http.StatusRequestEntityTooLarge, "too_large")
	d.accept(t, alice, newKey(), full)
	d.wantRows(t, 1)
}

// spaces is white space without end.
type spaces struct{}

func (spaces) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}
