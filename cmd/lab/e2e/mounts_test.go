package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/lab"
)

// A job sees by its mounts and its image what its user could see anyway, and nothing else.
func TestMountsLeadNowhere(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 1})
	secret := filepath.Join(w.Dir, "secret")
	for _, dir := range []string{secret + "/usr", w.shared + "/good", w.shared + "/locked/inner/usr"} {
		w.must(os.MkdirAll(dir, 0o755))
		w.must(os.WriteFile(filepath.Join(dir, "name"), []byte("name of "+filepath.Base(dir)), 0o644))
	}
	w.must(os.Chmod(w.shared+"/locked", 0o700))
	w.must(os.Symlink(secret, w.shared+"/out"))
	mount := func(source, target string) string {
		text := simple("mounts", "cat /mine/name", "")
		return strings.Replace(text, "kill_timeout",
			"mount {\n      source = \""+source+"\"\n      target = \""+target+"\"\n    }\n    kill_timeout", 1)
	}
	id := w.submit(mount(w.shared+"/good", "/mine"))
	if j := w.ends(id); j.Code != "CD" {
		t.Errorf("a mount of a directory that may be mounted: %s: %s", j.Code, j.Reason.Text)
	}
	w.wants(w.ok("logs", id), "name of good")
	image := strings.Replace(simple("image", "true", ""), "kill_timeout",
		"image = \""+w.shared+"/locked/inner\"\n    kill_timeout", 1)
	wants := map[string]string{}
	for want, text := range map[string]string{
		"which is not below a shared path": mount(w.shared+"/out", "/mine"),
		"the job's user cannot use " + w.shared + "/locked/inner: permission denied": mount(w.shared+"/locked/inner",
			"/mine"),
		"which other jobs share": mount(w.shared+"/good", w.shared+"/locked/new"),
		"the job's u":            image,
	} {
		wants[w.submit(text)] = want
	}
	for id, want := range wants {
		if j := w.ends(id); j.Code != "BF" || !strings.Contains(j.Reason.Text, want) {
			t.Errorf("ended as %s, not as BF with %q: %s", j.Code, want, j.Reason.Text)
		}
	}
	if _, err := os.Stat(w.shared + "/locked/new"); err == nil {
		t.Error("root made a directory where the user could not")
	}
}
