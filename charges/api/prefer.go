package api

import (
	"strconv"
	"strings"
	"time"
)

// maxWait is the longest wait that a client can prefer: what clients and proxies commonly hold a connection open for.
const maxWait = 60 * time.Second

// preferredWait reads wait=N from the values of Prefer headers (RFC 7240), cut to limit; 0 for no wait. A preference that
// makes no sense is ignored, as the RFC has it; of several, the first counts.
func preferredWait(values []string, limit time.Duration) time.Duration {
	for _, value := range values {
		for preference := range strings.SplitSeq(value, ",") {
			preference, _, _ = strings.Cut(preference, ";") // parameters, of which wait has none
			name, number, _ := strings.Cut(preference, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			return waitSeconds(strings.TrimSpace(number), limit)
		}
	}
	return 0
}

func waitSeconds(number string, limit time.Duration) time.Duration {
	if len(number) >= 2 && number[0] == '"' && number[len(number)-1] == '"' {
		number = number[1 : len(number)-1]
	}
	if number == "" || strings.Trim(number, "0123456789") != "" {
		return 0
	}
	seconds, err := strconv.ParseInt(number, 10, 32)
	if err != nil { // digits alone: too many of them
		return limit
	}
	return min(time.Duration(seconds)*time.Second, limit)
}
