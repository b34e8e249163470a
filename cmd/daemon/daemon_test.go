package daemon

import (
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
)

func TestSplitList(t *testing.T) {
	got := SplitList([]string{"a:1, b:2", "", "c:3,"})
	if want := []string{"a:1", "b:2", "c:3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNewLogger(t *testing.T) {
	for format, want := range map[string]string{"text": "msg=started", "json": `"msg":"started"`} {
		var out strings.Builder
		log, err := NewLogger(format, &out)
		if err != nil {
			t.Fatal(err)
		}
		log.Info("started")
		if !strings.Contains(out.String(), want) {
			t.Errorf("format %s: got %q, want %q in it", format, out.String(), want)
		}
	}
	if _, err := NewLogger("xml", io.Discard); err == nil || !strings.Contains(err.Error(), "text or json") {
		t.Errorf("format xml: got %v", err)
	}
}

// TestPreReleasesSaySo notices a daemon that keeps data of no future without a word.
func TestPreReleasesSaySo(t *testing.T) {
	var out strings.Builder
	WarnOfPreRelease(slog.New(slog.NewTextHandler(&out, nil)))
	said := strings.Contains(out.String(), "Rota 0.1.0 will not read the data of this one")
	if lines := strings.Count(out.String(), "\n"); said != api.PreRelease() || lines > 1 {
		t.Errorf("it says %q", out.String())
	}
}

func TestArgumentsAreRefused(t *testing.T) {
	app := NewApp("rota-testd", "", io.Discard, nil, func(*cli.Context) error {
		t.Error("the daemon was run")
		return nil
	})
	err := app.RunContext(t.Context(), []string{"rota-testd", "--log-format", "json", "stray"})
	if err == nil || !strings.Contains(err.Error(), `"stray"`) || !strings.Contains(err.Error(), "rota-testd") {
		t.Errorf("got %v", err)
	}
}

func TestHangupsAreReloads(t *testing.T) {
	hangups := Reloads()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	select {
	case <-hangups:
	case <-time.After(10 * time.Second):
		t.Error("SIGHUP was not delivered")
	}
}
