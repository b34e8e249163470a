package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// umaskStory is a shell with a umask that starts the same programs in every way. Each of them prints its mask
// and makes a file.
const umaskStory = `
umask %[1]s
cat >batch%[1]s.sh <<'END'
#!/bin/bash
#SBATCH --mem=64M
umask; touch by-batch%[1]s
srun sh -c 'touch step%[1]s'
umask 0037
srun sh -c 'touch step0037of%[1]s'
END
printf '#!/bin/bash\n#SBATCH --mem=64M\ntouch element%[1]s-$SLURM_ARRAY_TASK_ID\n' >array%[1]s.sh
( rota submit --follow --output=batch%[1]s/out batch%[1]s.sh >follow%[1]s 2>&1; echo $? >>codes ) &
( rota submit --wait --array=1-2 --output=array%[1]s-%%a array%[1]s.sh >array%[1]s 2>&1; echo $? >>codes ) &
( srun --mem=64M sh -c 'touch outside%[1]s; umask' >srun%[1]s 2>&1; echo $? >>codes ) &
( rota run --mem=64M -- sh -c 'touch run%[1]s; umask' >run-out%[1]s 2>&1; echo $? >>codes ) &
( id=$(rota submit --parsable --mem=64M --wrap='while [ ! -e end%[1]s ]; do sleep 0.1; done')
  until [ "$(squeue -h -j $id -o %%T)" = RUNNING ]; do sleep 0.1; done
  rota exec $id -- sh -c 'touch exec%[1]s; umask' >exec-out%[1]s 2>&1
  echo $? >>codes; touch end%[1]s; rota wait $id ) &
`

// TestTheUmaskOfTheSubmitter: processes and output files of a job have the umask of the shell that submitted
// it. A step has the umask of the shell that started it.
func TestTheUmaskOfTheSubmitter(t *testing.T) {
	w := newDevWorld(t)
	if err := os.Chmod(w.from, 0o777|os.ModeSticky); err != nil { // jobs run as nobody
		t.Fatal(err)
	}
	names := filepath.Join(w.from, "names")
	if err := os.Mkdir(names, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rota", "srun", "squeue"} {
		if err := os.Symlink(filepath.Join(bin, "rota"), filepath.Join(names, name)); err != nil {
			t.Fatal(err)
		}
	}
	masks := map[string]os.FileMode{"0077": 0o077, "0002": 0o002}
	all := "export PATH=" + names + ":$PATH\n"
	for mask := range masks {
		all += "(" + fmt.Sprintf(umaskStory, mask) + "wait ) &\n"
	}
	out, errs, code := w.dev("--cores", "32", "--", "bash", "-c", all+"wait")
	if b, err := os.ReadFile(filepath.Join(w.from, "codes")); code != 0 || err != nil ||
		string(b) != strings.Repeat("0\n", 5*len(masks)) {
		t.Fatalf("exit %d, %v\n%s%s\n%s", code, err, out, errs, b)
	}
	for mask, bits := range masks {
		for name, mode := range map[string]os.FileMode{
			"by-batch%s": 0o666 &^ bits, "step%s": 0o666 &^ bits, "step0037of%s": 0o640,
			"batch%s/out": 0o666 &^ bits, "batch%s": os.ModeDir | 0o777&^bits, "array%s-1": 0o666 &^ bits,
			"array%s-2": 0o666 &^ bits, "element%s-1": 0o666 &^ bits, "element%s-2": 0o666 &^ bits,
			"outside%s": 0o666 &^ bits, "run%s": 0o666 &^ bits, "exec%s": 0o666 &^ bits,
		} {
			path := filepath.Join(w.from, fmt.Sprintf(name, mask))
			if info, err := os.Lstat(path); err != nil || info.Mode() != mode {
				t.Errorf("%s is to have mode %v: %v, %v", path, mode, info, err)
			}
		}
		for _, name := range []string{"batch%s/out", "srun%s", "run-out%s", "exec-out%s"} {
			b, err := os.ReadFile(filepath.Join(w.from, fmt.Sprintf(name, mask)))
			if err != nil || !strings.Contains(string(b), mask+"\n") {
				t.Errorf("umask %s: %s has %q, %v", mask, name, b, err)
			}
		}
	}
}
