package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	oncepay "github.com/oncepay/oncepay/charges/client"
)

func init() { uuid.EnableRandPool() } // a key costs no system call

// Ways to make an idempotency key, which is the order's reference as well.
var (
	random  = uuid.NewString // version 4: each belongs to another page of a large index
	ordered = oncepay.NewKey // as our client library makes them, version 7: the newest lie side by side
)

// placeholder is a key's room in a request.
const placeholder = "00000000-0000-4000-8000-000000000000"

// order is what a client posts again and again, each time under another key, and what it must be answered.
type order struct {
	body   string
	key    func() string
	status int
	says   string // in the answer's body
}

// accepted tells whether the answer is a charge.
func (o order) accepted() bool { return o.status == http.StatusAccepted }

// SKUs that bench sells.
const (
	hotSKU     = "hot"
	soldOutSKU = "sold-out"
)

// Keys are random wherever nothing else is said: the worst that a caller may choose, for pgbench as well. What our client library's keys save is
// measured in growth, where it matters, with inTime.
var (
	usual   = order{body: body, key: random, status: http.StatusAccepted}
	inTime  = order{body: body, key: ordered, status: http.StatusAccepted}
	hot     = order{body: bodyFor(hotSKU), key: random, status: http.StatusAccepted, says: `"stock":"held"`}
	soldOut = order{body: bodyFor(soldOutSKU), key: random, status: http.StatusConflict, says: `"insufficient_inventory"`}
)

// bodyFor is an ordinary charge that sells one of a SKU.
func bodyFor(sku string) string {
	return strings.TrimSuffix(body, "}") + `,"items":[{"sku":"` + sku + `","quantity":1}]}`
}

// body is an ordinary charge.
const body = `{"amount":1099,"currency":"usd","payment_method":"pm_card_visa","receipt_email":"buyer@example.com",` +
	`"description":"Three books and a lamp","metadata":{"cart":"8a14c9","channel":"web"},"reference":"order-` + placeholder + `"}`

// client posts charges over one connection, each under a new key, and waits for each answer. It does as little as it can besides, since
// it takes its CPU from those that are measured.
type client struct {
	conn    net.Conn
	in      *bufio.Reader
	order   order
	request []byte
	rooms   [][]byte // of the key in request
	said    bytes.Buffer
}

func dial(address, token string, o order) (*client, error) {
	conn, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn, in: bufio.NewReader(conn), order: o}
	c.request = fmt.Appendf(nil, "POST /charge HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\nIdempotency-Key: %s\r\n\r\n%s", address, token, len(o.body), placeholder, o.body)
	for from := 0; ; {
		at := bytes.Index(c.request[from:], []byte(placeholder))
		if at < 0 {
			return c, nil
		}
		from += at + len(placeholder)
		c.rooms = append(c.rooms, c.request[from-len(placeholder):from])
	}
}

// post makes one charge and returns how long the answer took. Any answer but the order's is an error.
func (c *client) post() (time.Duration, error) {
	key := c.order.key()
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
	c.said.Reset()
	if _, err := c.said.ReadFrom(answer.Body); err != nil {
		return 0, fmt.Errorf("read the answer: %w", err)
	}
	took := time.Since(began)
	if answer.StatusCode != c.order.status || !bytes.Contains(c.said.Bytes(), []byte(c.order.says)) {
		return 0, fmt.Errorf("POST /charge was answered %s: %s", answer.Status, c.said.Next(1000))
	}
	return took, answer.Body.Close()
}
