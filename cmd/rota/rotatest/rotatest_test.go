package rotatest_test

import (
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
)

// commands has the command try, which asks for job 7 and prints what it is around.
func commands() []*command.Command {
	return []*command.Command{{Name: "try", Flags: command.CommonFlags(), Action: func(env *command.Env,
		c *cli.Context) error {
		s, err := env.Connect(c)
		if err != nil {
			return err
		}
		j, _, err := s.Job(c.Context, 7, api.Read{})
		if err != nil {
			return err
		}
		var in string
		_, _ = fmt.Fscan(env.Stdin, &in)
		_, err = fmt.Fprintln(env.Stdout, j.Name, in, env.Getenv("X"), env.Now().Unix(), env.IsTerminal(env.Stdout))
		return err
	}}}
}

// TestAnswers notices an answer of another request, and a request that is not recorded.
func TestAnswers(t *testing.T) {
	a := rotatest.NewAnswers(t)
	s := rotatest.Session{T: t, Addr: a.URL, Commands: commands, Env: []string{"X=1"}, Stdin: "in"}
	if got := s.Run("try"); got.Code != 3 || got.Stderr != "rota: there is nothing at /v1/jobs/7\n" {
		t.Errorf("what was not prepared: %+v", got)
	}
	a.On("GET /v1/jobs/7", rotatest.WhenAsked(1, api.Job{Name: "first"}, api.Job{Name: "then"}))
	for _, want := range []string{"first", "then", "then"} {
		if got := s.Run("try"); got.Stdout != want+" in 1 1795262400 false\n" {
			t.Errorf("%+v, want %s", got, want)
		}
	}
	a.Refuse("GET /v1/jobs/7", api.Problem{Status: 403, Code: api.CodeDenied, Detail: "no"})
	if got := s.Run("try"); got.Code != 4 || got.Stderr != "rota: no\n" {
		t.Errorf("%+v", got)
	}
	a.On("GET /v1/jobs/7", rotatest.Cut)
	s.ClientOptions = api.Options{RetryFor: time.Nanosecond}
	if got := s.Run("try"); got.Code != 5 {
		t.Errorf("%+v", got)
	}
	if asked := a.Requests(); asked[0].What != "GET /v1/jobs/7" || len(asked) < 6 {
		t.Errorf("asked %+v", asked)
	}
	a.Give("GET /v1/jobs/7", api.Job{Name: "x"})
	out, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(rotatest.JobFile(t, "piped"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	s.File, s.Out, s.Terminal, s.Now = in, out, true, func() time.Time { return time.Unix(5, 0) }
	got := s.Run("try")
	if text, err := os.ReadFile(out.Name()); err != nil || string(text) != "x piped 1 5 true\n" || got.Stdout != "" {
		t.Errorf("%+v, %q, %v", got, text, err)
	}
}

// TestLists notices a page or a stream that ends too early.
func TestLists(t *testing.T) {
	jobs := []api.Job{{ID: 1}, {ID: 2}, {ID: 3}}
	for what, serve := range map[string]func(http.ResponseWriter, *http.Request){"stream": rotatest.StreamOf(jobs),
		"pages": rotatest.PagesOf(jobs)} {
		a := rotatest.NewAnswers(t)
		a.On("GET /v1/jobs", serve)
		c, err := api.Dial(a.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var seen []int
		for page := ""; what == "pages" || len(seen) == 0; {
			list, answer, err := c.Jobs(t.Context(), api.JobFilter{Page: page}, api.Read{})
			if err != nil || answer.Index != 42 {
				t.Fatalf("%s: %+v, %v", what, answer, err)
			}
			for _, j := range list.Items {
				seen = append(seen, int(j.ID))
			}
			if page = list.Next; page == "" {
				break
			}
		}
		if fmt.Sprint(seen) != "[1 2 3]" {
			t.Errorf("%s: %v", what, seen)
		}
		n := 0
		if what == "stream" {
			if _, err := c.EachJob(t.Context(), api.JobFilter{}, api.Read{},
				func(*api.Job) error { n++; return nil }); err != nil || n != 3 {
				t.Errorf("%s: %d, %v", what, n, err)
			}
		}
	}
	if all := rotatest.Join(commands, commands)(); len(all) != 2 {
		t.Errorf("%d commands", len(all))
	}
	if at := rotatest.At("2026-11-21T12:00:00Z"); at.Unix() != 1795262400 {
		t.Errorf("%v", at)
	}
}
