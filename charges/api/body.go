package api

import (
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"

	"github.com/oncepay/oncepay/charges"
)

// readBody reads a JSON body of bounded size. A client that takes too long for it meets the server's read timeout.
func readBody(w http.ResponseWriter, c *call) ([]byte, error) {
	if !plainJSON(c.Header) {
		return nil, errMediaType
	}
	return readBounded(w, c, charges.MaxRequestBytes, errTooLarge)
}

// readBounded reads a body of at most limit bytes; a longer one is tooLong.
func readBounded(w http.ResponseWriter, c *call, limit int64, tooLong problem) ([]byte, error) {
	if c.ContentLength > limit {
		return nil, tooLong
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, c.Body, limit))
	tooLarge, timeout := (*http.MaxBytesError)(nil), net.Error(nil)
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &tooLarge):
		return nil, tooLong
	case errors.As(err, &timeout) && timeout.Timeout():
		return nil, errSlowBody
	default:
		return nil, errBrokenBody
	}
}

// plainJSON tells whether the body is declared as JSON in UTF-8, as it is. A form, which a browser sends
// without asking anybody, and a compressed body, which can grow without bound, are not taken.
func plainJSON(h http.Header) bool {
	for _, coding := range h.Values("Content-Encoding") {
		if !strings.EqualFold(strings.TrimSpace(coding), "identity") {
			return false
		}
	}
	types := h.Values("Content-Type")
	if len(types) != 1 {
		return false
	}
	media, params, err := mime.ParseMediaType(types[0])
	if err != nil || media != "application/json" {
		return false
	}
	for name, value := range params {
		if name != "charset" || !strings.EqualFold(value, "utf-8") {
			return false
		}
	}
	return true
}
