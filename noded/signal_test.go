package noded

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
)

// TestPassSignal: a controller has a node pass a signal on, each time, and the job continues. No
// other caller can do so, and a job that does not run gets no signal.
func TestPassSignal(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		w.assign(wid(1), true)
		settle(time.Second)
		ask := func(role, id, body string) int {
			t.Helper()
			r := httptest.NewRequestWithContext(identity.WithCaller(t.Context(), identity.Caller{Machine: true, Role: role}),
				http.MethodPost, "/v1/signal/"+id, strings.NewReader(body))
			r.SetPathValue("id", id)
			answer := httptest.NewRecorder()
			w.life.agent.passSignal(answer, r)
			return answer.Code
		}
		own := wid(1).String()
		const usr1 = `{"signal":"SIGUSR1","to":"script"}`
		for _, c := range []struct {
			role, id, body string
			want           int
		}{
			{"controller", own, usr1, 204}, {"controller", own, usr1, 204},
			{"controller", own, `{"signal":"SIGSTOP"}`, 204},
			{"node", own, usr1, 403}, {"user", own, usr1, 403},
			{"controller", own, `{"signal":"SIGNOTHING"}`, 400}, {"controller", own, `{`, 400},
			{"controller", "x", usr1, 400}, {"controller", wid(2).String(), usr1, 409},
		} {
			if got := ask(c.role, c.id, c.body); got != c.want {
				t.Errorf("%s asks for %s at %s: %d, not %d", c.role, c.body, c.id, got, c.want)
			}
		}
		one := container.Signal{Number: int(unix.SIGUSR1), To: "script", Plain: true}
		stop := container.Signal{Number: int(unix.SIGSTOP), Plain: true}
		b := w.container(wid(1))
		if !slices.Equal(b.plain, []container.Signal{one, one, stop}) || len(b.stops) > 0 || b.state != container.Running {
			t.Errorf("it is %s and got %v, stopped by %v", b.state, b.plain, b.stops)
		}
		w.stop(wid(1), model.CauseCancelled, time.Second)
		settle(time.Minute)
		if got := ask("controller", own, usr1); got != 409 {
			t.Errorf("after its end: %d", got)
		}
	})
}
