package input

import (
	"os"
	"strings"
	"testing"
)

// exported returns the variables that a job whose programs name no variable gets.
func exported(globs, environ []string) map[string]string {
	return exportsOf(globs, environ, "", existing).variables
}

// TestSecretsAreNotExported: --export=ALL, the default of sbatch, must not leak a user's tokens,
// passwords and keys into the log, the history and their backups.
func TestSecretsAreNotExported(t *testing.T) {
	secrets := []string{"HF_TOKEN=hf_x", "WANDB_API_KEY=0123", "AWS_SECRET_ACCESS_KEY=x",
		"AWS_ACCESS_KEY_ID=AKIAxxxxxxxxxxxxxxxx",
		"PGPASSWORD=x", "MYSQL_PWD=x", "DB_PASS=x", "SSH_PRIVATE=x", "GOOGLE_APPLICATION_CREDENTIALS=/x", "hf_token=x",
		"HF_AUTH=x", "PYTHON_COOKIE=x", "CUDA_NOTE=-----BEGIN OPENSSH PRIVATE KEY-----\nx", "TORCH_AS=ghp_0123456789abcdef",
		"RAY_ADDRESS=https://me:hunter2@example.org/x", "MLFLOW_X=eyJhbGciOi.eyJzdWIiOiIxMjM0.x", "OMP_X=sk-0123456789abcdef"}
	usual := []string{"PATH=/bin", "HOME=/home/u", "LC_ALL=C", "CONDA_PREFIX=/c", "OMP_NUM_THREADS=4", "NCCL_DEBUG=INFO",
		"LD_LIBRARY_PATH=/l", "LOADEDMODULES=a:b", "HF_HOME=/h", "TOKENIZERS_PARALLELISM=false", "WANDB_MODE=offline",
		"PYTHONPATH=/p", "BASH_ENV=/no/such/init", "FPATH=/no", "MODULES_CMD=/m", "_ModuleTable001_=x", "WORK=/etc",
		"SCRATCH=/etc/passwd", "PROJECT=/", "DATASETS=/no/such:/etc", "AWS_CA_BUNDLE=/etc/passwd", "http_proxy_not=1"}
	secrets = append(secrets, "DEPLOY_KEY_FILE=/etc/passwd", "MY_SECRETS=/etc") // paths, and secrets all the same
	others := []string{"LR=0.1", "DATA=/no/such/directory", "WHERE=etc", "BASHPID=3", "TTY=/dev/null", "OLDPWD=/etc",
		"SSH_CONNECTION=1 2", "PWD=/x", "XDG_RUNTIME_DIR=/run", "SLURM_JOB_ID=1", "ROTA_ADDR=x"}
	environ := append(append(append([]string{}, secrets...), usual...), others...)

	got := exported([]string{"*"}, environ)
	for _, entry := range append(secrets, others...) {
		name, _, _ := strings.Cut(entry, "=")
		if value, in := got[name]; in {
			t.Errorf("ALL copies %s=%s", name, value)
		}
	}
	for _, entry := range usual[:len(usual)-1] {
		name, value, _ := strings.Cut(entry, "=")
		if got[name] != value {
			t.Errorf("ALL does not copy %s", name)
		}
	}
	for _, entry := range environ { // what is named exactly is copied, whatever it is
		name, value, _ := strings.Cut(entry, "=")
		if got := exported([]string{"*", name}, environ); got[name] != value {
			t.Errorf("%s is named and not copied", name)
		}
	}
	pattern := exported([]string{"W*", "?R", "SLURM_*", "HF*", "DB_*"}, environ)
	if len(pattern) != 5 || pattern["WANDB_MODE"] == "" || pattern["LR"] == "" || pattern["HF_HOME"] == "" ||
		pattern["WORK"] == "" || pattern["WHERE"] == "" {
		t.Errorf("patterns copy %v", pattern)
	}
	if got := exported(nil, environ); got != nil {
		t.Errorf("without export %v is copied", got)
	}
}

// TestUsualVariablesAreDocumented compares the page about the environment with what a star copies.
func TestUsualVariablesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/environment.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]string{usualVariables, secretWords} {
		for _, name := range list {
			if !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("docs/environment.md lacks `%s`", name)
			}
		}
	}
}
