package api_test

import (
	"bytes"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy stands between an API process and PostgreSQL, and takes the database away.
type proxy struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	down  bool
	cut   string // the next time a client sends this text ...
	after bool   // ... its connection is cut after the server has answered it, or else before the server gets it
	then  bool   // and from then on the database is down
	conns map[net.Conn]struct{}
}

// newProxy returns a proxy for the database at rawURL, and the URL that goes through it.
func newProxy(t *testing.T, rawURL string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: u.Host, conns: map[net.Conn]struct{}{}}
	u.Host = listener.Addr().String()
	go p.accept()
	t.Cleanup(func() {
		_ = listener.Close()
		p.setDown(true)
	})
	return p, u.String()
}

// setDown takes the database away, present connections included, or brings it back.
func (p *proxy) setDown(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
	if down {
		for c := range p.conns {
			_ = c.Close()
		}
	}
}

// cutAt loses the next statement with this text, or else the answer to it.
func (p *proxy) cutAt(text string, answer, thenDown bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.after, p.then = text, answer, thenDown
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		down := p.down
		if !down {
			p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		}
		p.mu.Unlock()
		if down {
			_, _ = client.Close(), server.Close()
			continue
		}
		go p.forward(client, server)
	}
}

func (p *proxy) forward(client, server net.Conn) {
	lost := make(chan struct{}) // closed: what the server answers from now on is lost
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		buffer := make([]byte, 64<<10)
		for {
			n, err := server.Read(buffer)
			select {
			case <-lost:
				return
			default:
			}
			if err != nil {
				_ = client.Close()
				return
			}
			_, _ = client.Write(buffer[:n])
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			break
		}
		fire, answer, thenDown := p.fires(buffer[:n])
		if fire && answer {
			close(lost)
			_, _ = server.Write(buffer[:n])
			<-answered
		}
		if fire && thenDown {
			p.setDown(true)
		}
		if fire {
			break
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			break
		}
	}
	_, _ = client.Close(), server.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
	delete(p.conns, server)
}

func (p *proxy) fires(sent []byte) (fire, answer, thenDown bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut == "" || !bytes.Contains(sent, []byte(p.cut)) {
		return false, false, false
	}
	p.cut = ""
	return true, p.after, p.then
}
