package exit

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
)

// TestCodes notices an error that scripts take for another one, wrapped or not.
func TestCodes(t *testing.T) {
	problem := func(code string) error { return &api.Problem{Code: code, Detail: "x"} }
	for _, c := range []struct {
		err  error
		want int
	}{
		{Usagef("x"), Usage}, {&FileError{Name: "x"}, Usage}, {ErrInterrupted, Interrupted}, {context.Canceled, Interrupted},
		{ErrTimeout, Timeout}, {context.DeadlineExceeded, Timeout}, {&api.UnreachableError{}, Unreachable},
		{errors.New("x"), Failed}, {problem(api.CodeInvalid), Usage}, {problem(api.CodeInvalidJob), Usage},
		{problem(api.CodeImpossible), Usage}, {problem(api.CodeUnsupported), Usage}, {problem(api.CodeTooLarge), Usage},
		{problem(api.CodeNotFound), NotFound}, {problem(api.CodeDenied), Denied}, {problem(api.CodeUnauthorised), Denied},
		{problem(api.CodeNoLeader), Unreachable}, {problem(api.CodeTimeout), Timeout}, {problem(api.CodeWrongState), Failed},
	} {
		for _, err := range []error{c.err, fmt.Errorf("job 4: %w", c.err), &JobError{c.err}} {
			if got := Code(err); got != c.want {
				t.Errorf("%T %v: %d, not %d", c.err, err, got, c.want)
			}
		}
	}
	if err := WithCode(OK); err != nil {
		t.Errorf("no failure is %v", err)
	}
	var code *CodeError
	if err := WithCode(7); !errors.As(err, &code) || code.Code != 7 || err.Error() != "" {
		t.Errorf("got %v", err)
	}
	if e := Usagef("a %d", 1).WithHint("h"); e.Error() != "a 1" || e.Hint != "h" {
		t.Errorf("got %+v", e)
	}
}

// TestOwnCodesAreNoJobs notices a failure of rota itself that is taken for the job's.
func TestOwnCodesAreNoJobs(t *testing.T) {
	seen := map[int]bool{}
	for code, want := range map[int]int{Usage: OwnUsage, NotFound: OwnNotFound, Denied: OwnDenied,
		Unreachable: OwnUnreachable, Timeout: OwnTimeout, Failed: OwnFailed} {
		got := OwnCode(code)
		if got != want || got < 120 || got > 125 || seen[got] {
			t.Errorf("%d becomes %d", code, got)
		}
		seen[got] = true
	}
}
