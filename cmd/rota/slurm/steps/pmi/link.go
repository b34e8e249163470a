package pmi

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// linkTimeout bounds how long one end waits for the other end to authenticate.
const linkTimeout = 10 * time.Second

// Address is where a server listens, and the secret that authenticates the server and its processes
// to each other. Its text form is an environment variable of the processes.
type Address struct {
	Hosts  []string // addresses of this machine, as other machines see it
	Port   int
	Secret string
}

// String returns the text form.
func (a Address) String() string {
	return fmt.Sprintf("%s/%d/%s", a.Secret, a.Port, strings.Join(a.Hosts, ","))
}

// ParseAddress parses the text form that String returns.
func ParseAddress(text string) (Address, error) {
	parts := strings.SplitN(text, "/", 3)
	if len(parts) != 3 || parts[0] == "" || parts[2] == "" {
		return Address{}, errors.New("it is not the address of a PMI server")
	}
	port, err := strconv.ParseUint(parts[1], 10, 16)
	return Address{Hosts: strings.Split(parts[2], ","), Port: int(port), Secret: parts[0]}, err
}

// proof returns a message that only an end with the secret can make.
func (a Address) proof(words ...string) string {
	h := hmac.New(sha256.New, []byte(a.Secret))
	h.Write([]byte(strings.Join(words, " ")))
	return hex.EncodeToString(h.Sum(nil))
}

func nonce() string {
	var b [16]byte
	rand.Read(b[:]) // rand.Read never fails
	return hex.EncodeToString(b[:])
}

// Listener accepts the processes of a program.
type Listener struct {
	Address
	listen net.Listener
	server *Server
	begun  chan struct{} // closed once server is set
	mu     sync.Mutex
	taken  map[int]bool // connected ranks
	conns  map[net.Conn]bool
	ends   sync.WaitGroup
}

// Listen accepts processes that know the secret, from anywhere in the network. They wait until
// Begin is called. Close closes the listener.
func Listen() (*Listener, error) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return nil, err
	}
	hosts, err := hosts()
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	port := l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // the listener is a TCP listener
	ln := &Listener{Address: Address{hosts, port, nonce()}, listen: l, begun: make(chan struct{}), taken: map[int]bool{},
		conns: map[net.Conn]bool{}}
	ln.ends.Go(ln.accept)
	return ln, nil
}

// Begin lets a server answer the processes. It must be called once.
func (l *Listener) Begin(s *Server) {
	l.server = s
	close(l.begun)
}

// hosts lists this machine's addresses, those that other machines can reach first.
func hosts() ([]string, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var near, far []string
	for _, a := range all {
		n, ok := a.(*net.IPNet)
		switch {
		case !ok || n.IP.IsLinkLocalUnicast() || n.IP.IsMulticast():
		case n.IP.IsLoopback():
			near = append(near, n.IP.String())
		default:
			far = append(far, n.IP.String())
		}
	}
	return append(far, near...), nil
}

// maxStrangers bounds the number of open connections that have not authenticated yet.
const maxStrangers = 256

func (l *Listener) accept() {
	strangers := make(chan struct{}, maxStrangers)
	for {
		conn, err := l.listen.Accept()
		if err != nil {
			return // the listener was closed
		}
		strangers <- struct{}{}
		if !l.keep(conn) {
			return
		}
		l.ends.Go(func() {
			defer l.drop(conn)
			rank, err := l.welcome(conn)
			<-strangers
			if err == nil {
				_ = l.server.Serve(rank, conn) // the process notices the closed connection
			}
		})
	}
}

func (l *Listener) keep(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil {
		_ = conn.Close()
		return false
	}
	l.conns[conn] = true
	return true
}

func (l *Listener) drop(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
	_ = conn.Close()
}

// Close closes the connections to all processes.
func (l *Listener) Close() {
	_ = l.listen.Close()
	l.mu.Lock()
	for conn := range l.conns {
		_ = conn.Close()
	}
	l.conns = nil
	l.mu.Unlock()
	l.ends.Wait()
}

// welcome verifies that the other end knows the secret, proves that this end does, and returns the
// rank of the process.
func (l *Listener) welcome(conn net.Conn) (int, error) {
	if err := conn.SetDeadline(time.Now().Add(linkTimeout)); err != nil {
		return 0, err
	}
	theirs, err := readWord(conn)
	if err != nil {
		return 0, err
	}
	mine := nonce()
	if _, err := fmt.Fprintf(conn, "%s %s\n", mine, l.proof("server", theirs, mine)); err != nil {
		return 0, err
	}
	text, err := readWord(conn)
	if err != nil {
		return 0, err
	}
	number, proof, _ := strings.Cut(text, " ")
	rank, err := strconv.Atoi(number)
	if err != nil || !hmac.Equal([]byte(proof), []byte(l.proof("rank", number, theirs, mine))) {
		return 0, errors.New("it sent the wrong secret")
	}
	select {
	case <-l.begun:
	case <-time.After(linkTimeout):
		return 0, errors.New("srun did not learn in time that the step has begun")
	}
	l.mu.Lock()
	again := l.taken[rank]
	l.taken[rank] = true
	l.mu.Unlock()
	if again || rank < 0 || rank >= len(l.server.nodes) {
		return 0, fmt.Errorf("rank %d is unknown or already connected", rank)
	}
	_, err = fmt.Fprintf(conn, "%d\n", len(l.server.nodes))
	return rank, errors.Join(err, conn.SetDeadline(time.Time{}))
}

// readWord reads one line of at most 200 bytes, and no byte beyond it.
func readWord(r io.Reader) (string, error) {
	var line []byte
	for len(line) < 200 {
		var b [1]byte
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return "", err
		}
		if b[0] == '\n' {
			return string(line), nil
		}
		line = append(line, b[0])
	}
	return "", bufio.ErrBufferFull
}

// Dial connects a process to its server, and returns the number of ranks. It tries all hosts of the
// address at once.
func (a Address) Dial(ctx context.Context, rank int) (conn *net.TCPConn, size int, err error) {
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	type answer struct {
		conn *net.TCPConn
		size int
		err  error
	}
	answers := make(chan answer)
	for _, host := range a.Hosts {
		go func() {
			conn, size, err := a.greet(ctx, host, rank)
			select {
			case answers <- answer{conn, size, err}:
			case <-ctx.Done():
				if conn != nil {
					_ = conn.Close()
				}
			}
		}()
	}
	for range a.Hosts {
		select {
		case got := <-answers:
			if got.err == nil {
				return got.conn, got.size, nil
			}
			err = errors.Join(err, got.err)
		case <-ctx.Done():
			return nil, 0, errors.Join(err, context.Cause(ctx))
		}
	}
	return nil, 0, err
}

// greet connects to one host and verifies that it is the server.
func (a Address) greet(ctx context.Context, host string, rank int) (*net.TCPConn, int, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(a.Port)))
	if err != nil {
		return nil, 0, err
	}
	conn := c.(*net.TCPConn) //nolint:forcetypeassert // the dialled network is TCP
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	size, err := a.introduce(conn, rank)
	if !stop() || err != nil {
		return nil, 0, errors.Join(fmt.Errorf("%s: %w", host, cmpErr(err, ctx.Err())), conn.Close())
	}
	return conn, size, nil
}

func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func (a Address) introduce(conn net.Conn, rank int) (int, error) {
	mine := nonce()
	if _, err := fmt.Fprintf(conn, "%s\n", mine); err != nil {
		return 0, err
	}
	text, err := readWord(conn)
	if err != nil {
		return 0, err
	}
	theirs, proof, _ := strings.Cut(text, " ")
	if !hmac.Equal([]byte(proof), []byte(a.proof("server", mine, theirs))) {
		return 0, errors.New("another server answers")
	}
	number := strconv.Itoa(rank)
	if _, err := fmt.Fprintf(conn, "%s %s\n", number, a.proof("rank", number, mine, theirs)); err != nil {
		return 0, err
	}
	if text, err = readWord(conn); err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}
