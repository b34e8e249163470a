package exchange

import (
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
)

// refuseBrowsers refuses the requests that a web page can have a user's browser make. On a loopback
// address the kernel tells the user of a connection, and a page in the user's browser connects as
// that user.
//
//   - - Host is an address of the listener, localhost, or the name of the daemon. A page's own name
//     that suddenly resolves to this machine (DNS rebinding) is none of these.
//   - Origin is not set, and Sec-Fetch-Site names no other site. The programs that this API is for
//     set neither. A preflight has an Origin.
//   - A body is application/json. A page may send the types of forms anywhere, and this one only
//     after a preflight.
//
// A unix socket is not checked, since no page can reach it. With TLS the Host is not checked: the
// name is in the certificate, and the caller shows a certificate or a token.
func (s *Service) refuseBrowsers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := s.fromBrowser(r); p != nil {
			refuseUnread(w, r, p)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// fromBrowser says why a request is refused, nil if a program makes it.
func (s *Service) fromBrowser(r *http.Request) *api.Problem {
	at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if at != nil && at.Network() == "unix" {
		return nil
	}
	if r.TLS == nil && !s.knownAs(r.Host, at) {
		return &api.Problem{Status: http.StatusMisdirectedRequest, Code: api.CodeDenied,
			Detail: fmt.Sprintf("this controller does not answer to the name %q", cut(r.Host)),
			Hint:   "use its address or localhost: other names are refused, so that no web page can act for a user"}
	}
	if _, set := r.Header["Origin"]; set {
		return browserProblem("Origin", r.Header.Get("Origin"))
	}
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "none", "same-origin":
	default:
		return browserProblem("Sec-Fetch-Site", site)
	}
	return checkContentType(r)
}

func browserProblem(header, value string) *api.Problem {
	return &api.Problem{Status: http.StatusForbidden, Code: api.CodeDenied,
		Detail: fmt.Sprintf("requests of web pages are refused (%s: %s)", header, cut(value)),
		Hint:   "use rota, or another program that is not a browser"}
}

// cut shortens what a stranger wrote, for a message.
func cut(text string) string { return text[:min(len(text), 80)] }

// knownAs reports whether a Host header names this controller as a local program does, at the
// address that the connection came to.
func (s *Service) knownAs(host string, at net.Addr) bool {
	name := hostName(host)
	if strings.EqualFold(name, "localhost") || name != "" && strings.EqualFold(name, hostName(s.HTTP)) {
		return true
	}
	ip, err := netip.ParseAddr(name)
	if err != nil || at == nil {
		return false
	}
	own, err := netip.ParseAddrPort(at.String())
	return err == nil && ip.Unmap() == own.Addr().Unmap()
}

// hostName returns a host without its port and without the brackets of IPv6.
func hostName(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// checkContentType refuses a body that is not JSON, and every type that an HTML form can have.
func checkContentType(r *http.Request) *api.Problem {
	text := r.Header.Get("Content-Type")
	if text == "" && r.ContentLength == 0 {
		return nil
	}
	if kind, _, err := mime.ParseMediaType(text); err == nil && kind == "application/json" {
		return nil
	}
	return &api.Problem{Status: http.StatusUnsupportedMediaType, Code: api.CodeInvalid,
		Detail: fmt.Sprintf("the content type is %q, not application/json", cut(text)),
		Hint:   "set the header Content-Type: application/json"}
}
