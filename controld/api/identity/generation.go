package identity

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
)

// linkProtocol is what the two ends of a link agree on in the handshake, with the generation of the
// cluster behind it.
const linkProtocol = "rota-log/"

// errNotOpen refuses connections until the log has been read.
var errNotOpen = errors.New("the log is not open yet")

// SetGeneration has links connect controllers of one generation of the cluster only. The function
// returns the generation of the log here, and false while the log is empty: then the other end may be
// of any. Before it is set every connection is refused.
func (l *Link) SetGeneration(f func() (generation string, known bool)) { l.generation.Store(&f) }

// offered returns what a connection from here asks for.
func (l *Link) offered() (string, error) {
	f := l.generation.Load()
	if f == nil {
		return "", errNotOpen
	}
	g, _ := (*f)()
	return linkProtocol + g, nil
}

// accept returns how to take a connection: the other end must be of the same generation.
func (l *Link) accept(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	f := l.generation.Load()
	if f == nil {
		return nil, errNotOpen
	}
	g, known := (*f)()
	conf := l.server.Clone()
	conf.NextProtos = []string{linkProtocol + g}
	if !known {
		conf.NextProtos = hello.SupportedProtos
	}
	if len(hello.SupportedProtos) == 0 {
		return nil, errors.New("the other controller did not name the generation of its cluster")
	}
	return conf, nil
}

// explainGeneration says which controller a link was refused by.
func explainGeneration(err error, name string) error {
	if err != nil && strings.Contains(err.Error(), "no application protocol") {
		return fmt.Errorf("controller %s belongs to another generation of the cluster, because rota-controld recover or "+
			"restore was run: %w", name, err)
	}
	return err
}
