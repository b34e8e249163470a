package admin

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/backup"
)

// madeBackup is a backup of half a MiB of state, and its size before it is compressed.
func madeBackup(t *testing.T) (file []byte, unpacked int64) {
	t.Helper()
	dir := t.TempDir()
	parts := backup.Parts{Manifest: backup.Manifest{Name: "lab", Cluster: "c", Generation: "0"},
		State: filepath.Join(dir, "state"), History: filepath.Join(dir, "history")}
	r := rand.NewChaCha8([32]byte{1})
	for _, path := range []string{parts.State, parts.History} {
		text := make([]byte, 512<<10)
		_, _ = r.Read(text) // never fails
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := backup.Write(&b, parts); err != nil {
		t.Fatal(err)
	}
	unpacked, err := parts.Size()
	if err != nil || unpacked != 1<<20 {
		t.Fatalf("%d bytes, %v", unpacked, err)
	}
	return b.Bytes(), unpacked
}

// TestABackupShowsItsProgress: on a terminal, as a part of what the controller says that it is. The line is gone at the
// end, and the file is what the controller sent.
func TestABackupShowsItsProgress(t *testing.T) {
	t.Parallel()
	term := rotatest.NewTerminal(t, 80)
	file, unpacked := madeBackup(t)
	a := rotatest.NewAnswers(t)
	a.On("POST /v1/backup", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(api.HeaderUnpacked, strconv.FormatInt(unpacked, 10))
		_, _ = w.Write(file[:len(file)/2])
		w.(http.Flusher).Flush()
		term.Await(" of 1M (")
		_, _ = w.Write(file[len(file)/2:])
	})
	path := filepath.Join(t.TempDir(), "saved")
	var out bytes.Buffer
	environ := []string{"ROTA_ADDR=" + a.URL}
	env := command.System()
	env.Stdout, env.Stderr, env.Environ = &out, term.File, func() []string { return environ }
	env.Getenv = func(name string) string { value, _ := env.LookupEnv(name); return value }
	code := command.Run(t.Context(), []string{"rota", "cluster", "backup", path}, env, Commands())
	text := term.Shown()
	got, err := os.ReadFile(path)
	if code != 0 || err != nil || !bytes.Equal(got, file) || !strings.Contains(out.String(), "cluster lab (c)") {
		t.Errorf("exit %d, %v, %d bytes of %d, %q, %q", code, err, len(got), len(file), out.String(), text)
	}
	last := text[strings.LastIndex(text, "\r")+1:]
	if !strings.HasPrefix(text, "\rreceiving the backup") || last != "" {
		t.Errorf("the terminal shows %q", text)
	}
}

// TestWhatIsNoBackupIsNotKept: a stream that is cut, changed or no backup leaves no file.
func TestWhatIsNoBackupIsNotKept(t *testing.T) {
	file, _ := madeBackup(t)
	changed := bytes.Clone(file)
	changed[len(changed)/2] ^= 1
	for what, sent := range map[string][]byte{"cut": file[:len(file)/2], "cut at its end": file[:len(file)-1],
		"changed": changed, "longer": append(bytes.Clone(file), "and more"...), "text": []byte("hello"), "nothing": nil} {
		a := rotatest.NewAnswers(t)
		a.On("POST /v1/backup", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(sent) })
		dir := t.TempDir()
		got := rotatest.Session{T: t, Addr: a.URL, Commands: Commands, Now: time.Now}.Run("cluster", "backup",
			filepath.Join(dir, "x"))
		left, _ := os.ReadDir(dir)
		if got.Code == 0 || !strings.Contains(got.Stderr, "the backup that the controller sent is incomplete") ||
			len(left) > 0 {
			t.Errorf("%s: exit %d, %q, it leaves %v", what, got.Code, got.Stderr, left)
		}
	}
	_, err := receive(failing{}, bytes.NewReader(file), "x", nil)
	if err == nil || !strings.Contains(err.Error(), "write x: short write") {
		t.Errorf("a full disk: %v", err)
	}
}

// failing refuses to be written to.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
