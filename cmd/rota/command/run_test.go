package command_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
)

// commands are small commands that print what they were given.
func commands() []*command.Command {
	return []*command.Command{
		{Name: "echo", Aliases: []string{"e"}, ArgsUsage: "[WORD...]", Action: echo, Once: true,
			FlagHint: func(flag string) string {
				if flag == "--batch" {
					return "batch is for scripts"
				}
				return ""
			},
			Flags: command.WithCommon(command.Text("name,n", ""), command.Text("names-only", ""), command.Number("count,c", ""),
				command.Switch("long,l", ""), command.Switch("all,a", ""), command.List("env", ""),
				command.NewMaybeFlag(command.Text("exclusive,x", "")))},
		{Name: "nodes", ArgsUsage: "[OPTIONS]", Flags: command.WithCommon(command.Text("user", ""), command.Switch("me", "")),
			Action: listNodes},
		{Name: "one", ArgsUsage: "JOB", Flags: command.CommonFlags(), Action: oneJob},
		{Name: "some", ArgsUsage: "JOB...", Flags: command.WithCommon(command.Text("timeout", "")), JobCode: true,
			Action: someJobs},
		{Name: "fail", Flags: command.WithCommon(command.Text("with", "")), Action: fail},
		{Name: "stop", ArgsUsage: "JOB...", Flags: command.CommonFlags(), Action: stopJobs},
		{Name: "pick", Flags: command.WithCommon(command.Text("kind", ""), command.Text("other", "")), Action: pick},
		{Name: "pipe", Action: func(env *command.Env, _ *cli.Context) error {
			_, err := fmt.Fprintln(env.Stdout, env.PipedInput() != nil)
			return err
		}},
		{Name: "secret", Hidden: true, Action: fail},
	}
}

// echo prints its flags and arguments.
func echo(env *command.Env, c *cli.Context) error {
	fmt.Fprintf(env.Stdout, "name=%s count=%d long=%v all=%v env=%v exclusive=%v:%s args=%v colour=%v\n", c.String("name"),
		c.Int("count"), c.Bool("long"), c.Bool("all"), c.StringSlice("env"), c.IsSet("exclusive"), c.String("exclusive"),
		c.Args().Slice(), env.Colour(env.Stdout))
	return nil
}

// listNodes prints the names of the nodes, and the user that is selected.
func listNodes(env *command.Env, c *cli.Context) error {
	if err := errors.Join(command.RefuseArguments(c), command.RefuseEmpty(c, "user")); err != nil {
		return err
	}
	s, err := env.Connect(c)
	if err != nil {
		return err
	}
	name, err := env.SelectedUser(c)
	if err != nil {
		return err
	}
	list, answer, err := s.Nodes(c.Context, api.Read{})
	if err != nil {
		return err
	}
	env.WarnStale(answer)
	if s.AsJSON {
		return table.PrintJSON(env.Stdout, list)
	}
	fmt.Fprintln(env.Stdout, len(list.Items), name)
	return nil
}

// oneJob prints the id of a job.
func oneJob(env *command.Env, c *cli.Context) error {
	s, ref, err := env.ConnectForJob(c)
	if err != nil {
		return err
	}
	id, err := s.JobID(c.Context, ref)
	if err != nil {
		return err
	}
	fmt.Fprintln(env.Stdout, id)
	return nil
}

// someJobs prints references to jobs; with --timeout it waits until that has passed.
func someJobs(env *command.Env, c *cli.Context) error {
	_, refs, err := env.ConnectForJobs(c)
	if err != nil {
		return err
	}
	ctx, cancel, err := command.WithTimeout(c.Context, c)
	if err != nil {
		return err
	}
	defer cancel()
	if c.IsSet("timeout") {
		<-ctx.Done()
		return ctx.Err()
	}
	fmt.Fprintln(env.Stdout, strings.Join(refs, " "))
	return nil
}

// stopJobs cancels each of its jobs.
func stopJobs(env *command.Env, c *cli.Context) error {
	s, refs, err := env.ConnectForJobs(c)
	if err != nil {
		return err
	}
	return s.ForEach(refs, "job", "stopped", func(ref string) (*api.ControlResponse, error) {
		return s.Control(c.Context, ref, "cancel", "")
	})
}

// pick takes --kind a or b, and --other never.
func pick(_ *command.Env, c *cli.Context) error {
	return errors.Join(command.RefuseOthers(c, "kind", "apple", "pear"), command.RefuseFlags(c, "rota echo", "other"))
}

// fail ends with the error that --with names.
func fail(env *command.Env, c *cli.Context) error {
	return map[string]error{
		"code": exit.WithCode(77), "text": &exit.CodeError{Code: 78, Text: "it says why"},
		"pipe": fmt.Errorf("write: %w", exit.ErrPipe), "job": &exit.JobError{Err: &api.UnreachableError{Addrs: []string{"x"},
			Err: errors.New("refused")}},
		"": errors.New("it went wrong  \n"),
	}[c.String("with")]
}

func session(t *testing.T, addr string) rotatest.Session {
	return rotatest.Session{T: t, Addr: addr, Commands: commands,
		ClientOptions: api.Options{Unreachable: time.Nanosecond, RetryFor: time.Nanosecond}}
}

// TestWhereFlagsMayStand notices a flag that is taken for an argument, or the other way round.
func TestWhereFlagsMayStand(t *testing.T) {
	for line, want := range map[string]string{
		"echo a b":             "name= count=0 long=false all=false env=[] exclusive=false: args=[a b] colour=false",
		"echo a -l b --name x": "name=x count=0 long=true all=false env=[] exclusive=false: args=[a b] colour=false",
		"echo -la -c3":         "name= count=3 long=true all=true env=[] exclusive=false: args=[] colour=false",
		"echo -lnx -c -3":      "name=x count=-3 long=true all=false env=[] exclusive=false: args=[] colour=false",
		"e --lo --cou=7":       "name= count=7 long=true all=false env=[] exclusive=false: args=[] colour=false",
		"echo --env A=1 --env B=2": "name= count=0 long=false all=false env=[A=1 B=2] exclusive=false: args=[] " +
			"colour=false",
		"echo --env A=1,B=2": "name= count=0 long=false all=false env=[A=1,B=2] exclusive=false: args=[] " +
			"colour=false",
		"echo --exclusive user": "name= count=0 long=false all=false env=[] exclusive=true: args=[user] colour=false",
		"echo --exclusive=user": "name= count=0 long=false all=false env=[] exclusive=true:user args=[] colour=false",
		"echo -xuser":           "name= count=0 long=false all=false env=[] exclusive=true:user args=[] colour=false",
		"echo -- -l --name": "name= count=0 long=false all=false env=[] exclusive=false: args=[-l --name] " +
			"colour=false",
		"echo -l -- -a":                 "name= count=0 long=true all=false env=[] exclusive=false: args=[-a] colour=false",
		"echo - -l":                     "name= count=0 long=true all=false env=[] exclusive=false: args=[-] colour=false",
		"echo --long=false --all=true":  "name= count=0 long=false all=true env=[] exclusive=false: args=[] colour=false",
		"--color always echo":           "name= count=0 long=false all=false env=[] exclusive=false: args=[] colour=true",
		"--colour=never echo":           "name= count=0 long=false all=false env=[] exclusive=false: args=[] colour=false",
		"--color never echo --color=al": "",
		"-o json echo -o table":         "name= count=0 long=false all=false env=[] exclusive=false: args=[] colour=false",
	} {
		got := session(t, "http://127.0.0.1:1").Run(strings.Fields(line)...)
		if want == "" {
			if got.Code != exit.Usage || got.Stderr != "rota: --color al: must be auto, always or never\n" {
				t.Errorf("rota %s: %+v", line, got)
			}
			continue
		}
		if got.Code != 0 || got.Stdout != want+"\n" || got.Stderr != "" {
			t.Errorf("rota %s: %+v\nwant %s", line, got, want)
		}
	}
}

// TestWrongFlagsAreNamed notices a message that does not say which word is wrong, or what to write
// instead.
func TestWrongFlagsAreNamed(t *testing.T) {
	for line, want := range map[string]string{
		"echo --nam x":       "rota: --nam may mean --name, --names-only\n  hint: write the whole name\n",
		"echo --nmae x":      "rota: rota echo has no option --nmae\n  hint: did you mean --name?\n",
		"echo --batch":       "rota: rota echo has no option --batch\n  hint: batch is for scripts\n",
		"echo --frobnicate":  "rota: rota echo has no option --frobnicate\n  hint: \"rota help echo\" lists its options\n",
		"echo -z":            "rota: rota echo has no option -z\n  hint: \"rota help echo\" lists its options\n",
		"echo -lz":           "rota: rota echo has no option -z\n  hint: \"rota help echo\" lists its options\n",
		"echo --":            "",
		"echo --name":        "rota: --name needs a value: see \"rota help echo\"\n",
		"echo -ln":           "rota: -n needs a value: see \"rota help echo\"\n",
		"echo --count three": "rota: --count three: not a whole number\n",
		"echo -c 1.5":        "rota: --count 1.5: not a whole number\n",
		"echo --long=7":      "rota: --long takes no value\n",
		"echo -n a -n b":     "rota: --name is given twice\n",
		"echo -o a -o b":     "", // a common flag: an alias may have it, and the user another
		"--frob echo":        "rota: unknown option --frob before the command: options of a command follow it\n",
		"--utc":              "rota: no command given: \"rota help\" lists them\n",
		"ehco":               "rota: unknown command \"ehco\"\n  hint: did you mean \"rota echo\"?\n",
		"scontrol show": "rota: unknown command \"scontrol\"\n  hint: Slurm's scontrol is \"rota status\" or " +
			"\"rota hold\"",
		"qstat":               "rota: unknown command \"qstat\"\n  hint: did you mean \"rota queue\"?\n",
		"secrt":               "rota: unknown command \"secrt\"\n  hint: \"rota help\" lists the commands\n",
		"nodes extra":         "rota: unexpected argument for rota nodes: \"extra\"; see \"rota help nodes\"\n",
		"nodes --user=":       "rota: --user is empty\n",
		"nodes --user ,":      "rota: --user is empty\n",
		"nodes -o yml":        "rota: unknown format -o yml: must be one of table, json\n",
		"nodes -o jsn":        "rota: unknown format -o jsn: must be one of table, json\n  hint: did you mean -o json?\n",
		"nodes --output=":     "rota: --output is empty\n",
		"one":                 "rota: rota one needs one job: rota one JOB\n",
		"one 1 2":             "rota: rota one needs one job: rota one JOB\n",
		"one 1,2":             "rota: rota one needs one job, not 2\n",
		"one x":               "rota: \"x\" is not a job id\n  hint: write an id, 123_4 or 123_[4-9] for array tasks, ",
		"one -- -3":           "rota: \"-3\" is not a job id\n",
		"some":                "rota: no job given: rota some JOB...\n",
		"some 1,,2":           "rota: \"\" is not a job id\n",
		"some 1 --timeout 5":  "rota: --timeout \"5\" is not a duration: write 90s or 10m\n",
		"some 1 --timeout 0s": "rota: --timeout \"0s\" is not a duration: write 90s or 10m\n",
	} {
		got := session(t, "http://127.0.0.1:1").Run(strings.Fields(line)...)
		code := exit.Usage
		if strings.HasPrefix(line, "some") {
			code = exit.OwnUsage
		}
		if want == "" {
			code = exit.OK
		}
		if got.Code != code || want != "" && (got.Stdout != "" || !strings.HasPrefix(got.Stderr, want)) {
			t.Errorf("rota %s: %+v\nwant %q", line, got, want)
		}
	}
}

// TestWhereTheControllersAre notices an address that is not used, and a message that does not name
// the one that was.
func TestWhereTheControllersAre(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("GET /v1/nodes", rotatest.List("NodeList", api.Node{Name: "gpu01"}))
	s := session(t, a.URL)
	if got := s.Run("nodes"); got.Code != 0 || got.Stdout != "1 \n" {
		t.Errorf("by ROTA_ADDR: %+v", got)
	}
	s = session(t, "http://127.0.0.1:1")
	if got := s.Run("nodes", "--addr", a.URL); got.Code != 0 || got.Stdout != "1 \n" {
		t.Errorf("by --addr: %+v", got)
	}
	if got := s.Run("nodes", "--addr", "unix:/nowhere/s, "+a.URL); got.Code != 0 || got.Stdout != "1 \n" {
		t.Errorf("by the second address: %+v", got)
	}
	for addr, want := range map[string]string{
		"http://127.0.0.1:1": "rota: no controller reachable at http://127.0.0.1:1: ",
		"unix:/nowhere/s":    "rota: no controller reachable at unix:/nowhere/s: ",
		"unix:":              "rota: address \"unix:\" has no path: write unix:/run/rota/rota.sock\n",
		",":                  "rota: address \",\" does not name a controller: write http://host:7070 or unix:PATH\n",
		"ftp://host:7070": "rota: address \"ftp://host:7070\" is not the address of a controller: write unix:PATH " +
			"or https://host:7070\n",
		"http://host":         "rota: address \"http://host\" is not the address of a controller: ",
		"http://a b:1":        "rota: address \"http://a b:1\": ",
		"https://host:7070":   "rota: address https://host:7070 needs an API token, which also identifies the cluster",
		api.DefaultSocket[1:]: "rota: address \"" + api.DefaultSocket[1:] + "\" is not the address of a controller: ",
	} {
		code, hint := exit.Usage, "  hint: set the address of the controllers by --addr or ROTA_ADDR\n"
		if strings.Contains(want, "reachable") {
			code, hint = exit.Unreachable, "  hint: check that a controller is running, and that ROTA_ADDR or --addr"
		}
		if got := s.Run("nodes", "--addr", addr); got.Code != code || got.Stdout != "" ||
			!strings.HasPrefix(got.Stderr, want) || !strings.Contains(got.Stderr, hint) {
			t.Errorf("--addr %s: %+v", addr, got)
		}
	}
	got := s.Run("nodes", "--addr", "unix:"+api.DefaultSocket)
	if _, err := os.Stat(api.DefaultSocket); err != nil && (got.Code != exit.Unreachable ||
		!strings.Contains(got.Stderr, "no daemon is running on this machine: set ROTA_ADDR")) {
		t.Errorf("without a daemon: %+v", got)
	}
}

// TestAPastedToken notices a token that is lost on the way, or shown where it can be read.
func TestAPastedToken(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("GET /v1/nodes", rotatest.List[api.Node]("NodeList"))
	token := api.NewBearerToken(nil).Text()
	other := api.NewBearerToken(nil).Text()
	for _, c := range []struct {
		env  string
		args []string
		want string
	}{
		{"", nil, ""}, {"", []string{"--token", token}, token}, {token, nil, token}, {other, []string{"--token", token},
			token},
		{token + "\n", nil, token}, {"", []string{"--token", " \t" + token + "\r\n"}, token},
	} {
		s := session(t, a.URL)
		s.Env = []string{"ROTA_TOKEN=" + c.env}
		got := s.Run(append([]string{"nodes"}, c.args...)...)
		asked := a.Requests()
		want := ""
		if c.want != "" {
			want = "Bearer " + c.want
		}
		if shown := asked[len(asked)-1].Authorization; got.Code != 0 || got.Stderr != "" || shown != want {
			t.Errorf("%q %q: %+v, showed %q", c.env, c.args, got, shown)
		}
	}
	s := session(t, "http://10.255.255.1:7070")
	before := len(a.Requests())
	if got := s.Run("nodes", "--token", token); got.Code != exit.Usage || strings.Contains(got.Stderr, token) ||
		!strings.Contains(got.Stderr, "has no TLS, so the API token could be read on the network") {
		t.Errorf("without TLS: %+v", got)
	}
	for _, broken := range []string{token[:40] + " " + token[40:], token[:40], "rota-join." + token, "secret"} {
		if got := session(t, a.URL).Run("nodes", "--token", broken); got.Code != exit.Usage ||
			strings.Contains(got.Stderr, broken[len(broken)-6:]) || !strings.Contains(got.Stderr, "ROTA_TOKEN") {
			t.Errorf("%q: %+v", broken, got)
		}
	}
	if n := len(a.Requests()) - before; n > 0 {
		t.Errorf("a broken token was sent %d times", n)
	}
}

// TestHowAnswersArePrinted notices a format that is not heeded, and stale data without a warning.
func TestHowAnswersArePrinted(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("GET /v1/nodes", rotatest.List("NodeList", api.Node{Name: "gpu01"}))
	s := session(t, a.URL)
	for output, asJSON := range map[string]bool{"": false, "json": true, "table": false, "yaml": false,
		"nonsense": false} {
		s.Env = []string{"ROTA_OUTPUT=" + output}
		if got := s.Run("nodes"); got.Code != 0 || strings.HasPrefix(got.Stdout, "{") != asJSON {
			t.Errorf("ROTA_OUTPUT=%s: %+v", output, got)
		}
		if got := s.Run("nodes", "-o", "table"); got.Code != 0 || got.Stdout != "1 \n" {
			t.Errorf("ROTA_OUTPUT=%s -o table: %+v", output, got)
		}
	}
	s.Env = nil
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Run("nodes", "--me"); got.Stdout != "1 "+me.Username+"\n" {
		t.Errorf("--me: %+v", got)
	}
	if got := s.Run("nodes", "--user", "ada"); got.Stdout != "1 ada\n" {
		t.Errorf("--user: %+v", got)
	}
}

// TestHowFailuresArePrinted notices a failure without a message, or with another exit code.
func TestHowFailuresArePrinted(t *testing.T) {
	s := session(t, "http://127.0.0.1:1")
	for with, want := range map[string]struct {
		code int
		text string
	}{
		"": {exit.Failed, "rota: it went wrong\n"}, "code": {77, ""}, "text": {78, "rota: it says why\n"},
		"pipe": {exit.OK, ""}, "job": {exit.OwnUnreachable, "rota: no controller reachable at x: refused\n"},
	} {
		if got := s.Run("fail", "--with", with); got.Code != want.code || !strings.HasPrefix(got.Stderr, want.text) ||
			(want.text == "") != (got.Stderr == "") || got.Stdout != "" {
			t.Errorf("%q: %+v", with, got)
		}
	}
	for args, want := range map[string]string{"fail -o json": "failed", "fail --output=json --with text": "failed",
		"fail -o json --with job": "unreachable", "nodes -o json x": "usage", "-o json ehco": "usage",
		"echo --nam x -o json": "usage",
		"nodes --output json":  "unreachable"} {
		got := s.Run(strings.Fields(args)...)
		var p api.Problem
		if err := json.Unmarshal([]byte(got.Stderr), &p); err != nil || p.Code != want || p.Detail == "" ||
			p.Type != "urn:rota:problem:"+want {
			t.Errorf("rota %s: %+v, %v", args, got, err)
		}
	}
	for _, args := range []string{"fail -o", "ehco -- -o json", "nodes x"} {
		if got := s.Run(strings.Fields(args)...); !strings.HasPrefix(got.Stderr, "rota: ") {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
}

// TestJobsByName notices a job that is looked up although its id is given, or is not although it is
// not.
func TestJobsByName(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("GET /v1/jobs/12_4", api.Job{ID: 17})
	a.Refuse("GET /v1/jobs/12.x", api.Problem{Status: 404, Code: api.CodeNotFound, Detail: "there is no job 12.x"})
	s := session(t, a.URL)
	for args, want := range map[string]string{"one 5": "5\n", "one 12_4": "17\n", "some 1 2,3": "1 2 3\n",
		"some 12_[1,4-6],7": "12_[1,4-6] 7\n"} {
		if got := s.Run(strings.Fields(args)...); got.Code != 0 || got.Stdout != want {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
	if asked := a.Requests(); len(asked) != 1 {
		t.Errorf("asked %+v", asked)
	}
	if got := s.Run("one", "12.x"); got.Code != exit.NotFound || got.Stderr != "rota: there is no job 12.x\n" {
		t.Errorf("%+v", got)
	}
	if got := s.Run("some", "1", "--timeout", "1ms"); got.Code != exit.OwnTimeout {
		t.Errorf("a timeout: %+v", got)
	}
}

// TestColours notices escapes in a file, or where the user wants none.
func TestColours(t *testing.T) {
	for _, c := range []struct {
		env      []string
		terminal bool
		want     bool
	}{{nil, true, true}, {nil, false, false}, {[]string{"NO_COLOR=1"}, true, false}, {[]string{"TERM=dumb"}, true, false},
		{[]string{"NO_COLOR="}, true, true}} {
		s := session(t, "http://127.0.0.1:1")
		s.Env, s.Terminal = c.env, c.terminal
		if got := s.Run("echo"); strings.HasSuffix(got.Stdout, "colour=true\n") != c.want {
			t.Errorf("%+v: %+v", c, got)
		}
		if got := s.Run("echo", "--color", "always"); !strings.HasSuffix(got.Stdout, "colour=true\n") {
			t.Errorf("%+v: always: %+v", c, got)
		}
	}
}

// TestCtrlC notices an interrupt that is taken for another failure.
func TestCtrlC(t *testing.T) {
	ctx, stop := command.Interruptible(t.Context())
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	s := session(t, "http://127.0.0.1:1")
	s.Commands = func() []*command.Command {
		return []*command.Command{{Name: "stop", Action: func(*command.Env, *cli.Context) error {
			return fmt.Errorf("job 4: %w", exit.ErrInterrupted)
		}}}
	}
	if got := s.Run("stop"); got.Code != exit.Interrupted || got.Stderr != "rota: job 4: interrupted\n" {
		t.Errorf("%+v", got)
	}
}

// TestWithoutACommand notices that rota alone teaches nothing.
func TestWithoutACommand(t *testing.T) {
	s := session(t, "http://127.0.0.1:1")
	asked := 0
	s.Commands = func() []*command.Command {
		return append(commands(), &command.Command{Name: "help", Action: func(*command.Env, *cli.Context) error {
			asked++
			return nil
		}}, &command.Command{Name: "version", Action: func(*command.Env, *cli.Context) error { asked += 100; return nil }})
	}
	for _, args := range [][]string{nil, {"--help"}, {"-h"}, {"echo", "--help"}, {"echo", "x", "-h"}, {"--help", "echo"}} {
		if got := s.Run(args...); got.Code != 0 {
			t.Errorf("%q: %+v", args, got)
		}
	}
	if asked != 6 {
		t.Errorf("help was shown %d times", asked)
	}
	if got := s.Run("--version"); got.Code != 0 || asked != 106 {
		t.Errorf("--version: %+v", got)
	}
}

// TestEachOfSeveralJobs notices a job of which nothing is said, and an exit code that hides a refusal.
func TestEachOfSeveralJobs(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs/1/cancel", api.ControlResponse{Items: []api.ControlItem{{ID: 1}}})
	a.Give("POST /v1/jobs/2_[0-9]/cancel", api.ControlResponse{Items: []api.ControlItem{{ID: 21}, {ID: 22},
		{ID: 23, Error: &api.Problem{Status: 409, Code: api.CodeWrongState, Detail: "it has ended"}}}})
	a.Refuse("POST /v1/jobs/3/cancel", api.Problem{Status: 404, Code: api.CodeNotFound, Detail: "there is no job 3"})
	a.Refuse("POST /v1/jobs/4/cancel", api.Problem{Status: 403, Code: api.CodeDenied, Detail: "it is not yours",
		Hint: "ask its owner", Errors: []string{"it is ada's"}})
	s := session(t, a.URL)
	for args, want := range map[string]struct {
		code        int
		out, stderr string
	}{
		"stop 1":       {0, "1 stopped\n", ""},
		"stop 2_[0-9]": {exit.Failed, "2 stopped\n", "rota: job 2_[0-9]: it has ended\n"},
		"stop 3 1":     {exit.NotFound, "1 stopped\n", "rota: there is no job 3\n"},
		"stop 3,4 2_[0-9]": {exit.Denied, "2 stopped\n", "rota: there is no job 3\nrota: job 4: it is not yours\n" +
			"  it is ada's\n  hint: ask its owner\nrota: job 2_[0-9]: it has ended\n"},
		"stop 3": {exit.NotFound, "", "rota: there is no job 3\n"},
	} {
		if got := s.Run(strings.Fields(args)...); got.Code != want.code || got.Stdout != want.out ||
			got.Stderr != want.stderr {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
	a.On("POST /v1/jobs/5/cancel", rotatest.Cut)
	if got := s.Run("stop", "1", "5", "3", "1"); got.Code != exit.Unreachable || got.Stdout != "1 stopped\n" ||
		!strings.HasPrefix(got.Stderr, "rota: job 5: no controller reachable at "+a.URL+": ") ||
		!strings.Contains(got.Stderr, "; 2 jobs after it not tried\n") {
		t.Errorf("when the controllers go away: %+v", got)
	}
	var all api.ControlResponse
	got := s.Run("stop", "3", "2_[0-9]", "-o", "json")
	if err := json.Unmarshal([]byte(got.Stdout), &all); err != nil || len(all.Items) != 4 || all.Items[0].Ref != "3" ||
		all.Items[0].Error == nil || all.Items[3].Ref != "2_[0-9]" || got.Stderr != "" || got.Code != exit.NotFound {
		t.Errorf("as JSON: %+v, %v", got, err)
	}
}

// TestValuesAndFlagsOfOtherForms notices an option that is ignored as if it had been obeyed.
func TestValuesAndFlagsOfOtherForms(t *testing.T) {
	s := session(t, "http://127.0.0.1:1")
	for args, want := range map[string]string{
		"pick --kind pear":           "",
		"pick --kind peer":           "rota: --kind peer: must be one of apple, pear\n  hint: did you mean pear?\n",
		"pick --kind x":              "rota: --kind x: must be one of apple, pear\n",
		"pick --kind=":               "rota: --kind is empty\n",
		"pick --kind pear --other x": "rota: --other is for rota echo only\n",
	} {
		if got := s.Run(strings.Fields(args)...); got.Stderr != want || (got.Code == exit.Usage) != (want != "") {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
}

// TestWhatIsPipedIn notices a terminal that a command waits for.
func TestWhatIsPipedIn(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	file, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for in, want := range map[*os.File]string{nil: "false\n", r: "true\n", null: "false\n", file: "true\n"} {
		s := session(t, "http://127.0.0.1:1")
		s.File = in
		if got := s.Run("pipe"); got.Stdout != want {
			t.Errorf("%v: %+v", in, got)
		}
	}
}

// TestAskingWhileAWordIsCompleted notices an error after Tab, which would disturb the command line,
// and a cluster that is not the one of the line.
func TestAskingWhileAWordIsCompleted(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("GET /v1/nodes", rotatest.List("NodeList", api.Node{Name: "gpu01"}))
	for _, c := range []struct {
		env  []string
		addr string
		want int
	}{
		{[]string{"ROTA_ADDR=" + a.URL}, "", 1}, {[]string{"ROTA_ADDR=unix:/nowhere"}, a.URL, 1},
		{[]string{"ROTA_ADDR=" + a.URL}, "ftp://x", 0}, {[]string{"ROTA_ADDR=" + a.URL, "ROTA_TOKEN=broken"}, "", 0},
		{[]string{"ROTA_ADDR=unix:/nowhere"}, "", 0},
	} {
		env := &command.Env{Environ: func() []string { return c.env },
			ClientOptions: api.Options{Unreachable: time.Nanosecond}}
		env.Getenv = func(name string) string { value, _ := env.LookupEnv(name); return value }
		l := &command.Line{Env: env, Context: t.Context(), Addr: c.addr}
		found := 0
		l.Ask(func(ctx context.Context, client *api.Client) error {
			list, _, err := client.Nodes(ctx, api.Read{})
			found = len(list.Items)
			return err
		})
		if found != c.want {
			t.Errorf("%+v: %d nodes", c, found)
		}
	}
}
