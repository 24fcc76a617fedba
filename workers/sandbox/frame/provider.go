package frame

import (
	"errors"
	"net/http"
	"net/url"
	"time"
)

// ErrClosed ends a request that was still held when the sandbox closed: nothing was done.
var ErrClosed = errors.New("the sandbox is closed")

// Provider plays one company's API. Its methods are called from many goroutines at once.
type Provider interface {
	// Identify reads what the request log and the faults need to know of a request; it changes nothing.
	Identify(*Request) Traits
	// Answer carries the request out. It calls Hold once, at the point up to which a slow provider
	// would have changed nothing, and gives up with Hold's error. What must be remembered is in the
	// journal before it returns. An error other than Hold's is answered with 500.
	Answer(*Request) (Answer, error)
	// Refuse is the error that a Status fault asks for, in the provider's own shape; nothing is done.
	Refuse(*Request) Answer
}

// Traits are what Identify finds.
type Traits struct {
	Account        string // "" when the caller is not known
	IdempotencyKey string // the key that the request carries, in the provider's own way
	List           bool   // a list, which ListLag can act on
	Stores         bool   // the answer may be stored under IdempotencyKey, which StoredStatus needs
}

// Request is an HTTP request whose body has been read.
type Request struct {
	Method string
	Host   string // the address at which the client reached the sandbox
	Path   string
	Query  url.Values
	Header http.Header
	Body   []byte
	Traits Traits
	// Fault acts on this request; nil without one.
	Fault *Fault

	closed <-chan struct{}
}

// Answer is a response before anything happens to it.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Hold waits for the fault's delay_ms. It returns ErrClosed if the sandbox closes meanwhile. That the client
// has gone away does not end it: a real provider would not notice either.
func (r *Request) Hold() error {
	d := r.Fault.hold()
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.closed:
		return ErrClosed
	}
}
