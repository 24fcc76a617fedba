package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/google/uuid"
)

func init() { uuid.EnableRandPool() } // a key costs no system call

// placeholder is a key's room in a request.
const placeholder = "00000000-0000-4000-8000-000000000000"

// body is an ordinary charge.
const body = `{"amount":1099,"currency":"usd","payment_method":"pm_card_visa","receipt_email":"buyer@example.com",` +
	`"description":"Three books and a lamp","metadata":{"cart":"8a14c9","channel":"web"},"reference":"order-` + placeholder + `"}`

// client posts charges over one connection, each under a new key, and waits for each answer. It does as little as it can besides, since
// it takes its CPU from those that are measured.
type client struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
	rooms   [][]byte // of the key in request
}

func dial(address, token string) (*client, error) {
	conn, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn, in: bufio.NewReader(conn)}
	c.request = fmt.Appendf(nil, "POST /charge HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\nIdempotency-Key: %s\r\n\r\n%s", address, token, len(body), placeholder, body)
	for from := 0; ; {
		at := bytes.Index(c.request[from:], []byte(placeholder))
		if at < 0 {
			return c, nil
		}
		from += at + len(placeholder)
		c.rooms = append(c.rooms, c.request[from-len(placeholder):from])
	}
}

// post makes one charge and returns how long the answer took. Any answer but 202 is an error.
func (c *client) post() (time.Duration, error) {
	key := uuid.New().String()
	for _, room := range c.rooms {
		copy(room, key)
	}
	began := time.Now()
	if err := c.conn.SetDeadline(began.Add(patience)); err != nil {
		return 0, err
	}
	if _, err := c.conn.Write(c.request); err != nil {
		return 0, err
	}
	answer, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, fmt.Errorf("read the answer: %w", err)
	}
	if answer.StatusCode != http.StatusAccepted {
		said, err := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return 0, errors.Join(fmt.Errorf("POST /charge was answered %s: %s", answer.Status, said), err)
	}
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return 0, fmt.Errorf("read the answer: %w", err)
	}
	return time.Since(began), answer.Body.Close()
}
