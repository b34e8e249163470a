package input

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// Variables of the submitting shell that a job gets stay in the log, in the history and in their
// copies for good. So a star copies only variables that programs on clusters are usually steered by,
// paths of files, and shell functions that the job calls. It copies nothing that may be a secret.

// usualVariables are the variables that --export=ALL and a star copy, by name or pattern.
// docs/environment.md lists them.
var usualVariables = strings.Fields(`
	SBATCH_* HOME USER LOGNAME SHELL EDITOR PAGER TZ LANG LANGUAGE LC_*
	PATH MANPATH INFOPATH CPATH LIBRARY_PATH LD_LIBRARY_PATH LD_PRELOAD LD_RUN_PATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH
	PKG_CONFIG_PATH CMAKE_PREFIX_PATH ACLOCAL_PATH CC CXX FC F77 CFLAGS CXXFLAGS FFLAGS FCFLAGS LDFLAGS
	BASH_ENV FPATH MODULE* LOADEDMODULES _LMFILES_ __MODULES_* LMOD_* __LMOD_* _ModuleTable* SPACK_* EASYBUILD_* EBROOT*
	EBVERSION* EBDEVEL*
	PYTHON* VIRTUAL_ENV VIRTUAL_ENV_PROMPT CONDA_* MAMBA_* PYENV_* PIXI_* UV_* POETRY_ACTIVE JULIA_* R_LIBS* R_HOME
	PERL5LIB JAVA_HOME GOPATH GOROOT
	CUDA_* CUDNN_* NVIDIA_* NCCL_* NVSHMEM_* ROCR_* ROCM_* HIP_* HSA_* RCCL_* UCX_* UCC_* GLOO_* OMPI_* PMIX_* MPI_*
	MPICH_* I_MPI_* MV2_* FI_* PSM2_* OMP_* GOMP_* KMP_* MKL_* OPENBLAS_* BLIS_* VECLIB_* NUMEXPR_* NUMBA_* MALLOC_*
	TCMALLOC_*
	TORCH* PYTORCH_* TF_* XLA_* JAX_* TRITON_* KERAS_* DS_* DEEPSPEED_* ACCELERATE_* FSDP_* VLLM_* RAY_* HF_* HUGGINGFACE_*
	TRANSFORMERS_* DATASETS_* TOKENIZERS_PARALLELISM WANDB_* MLFLOW_* COMET_* TENSORBOARD_*
`)

// sessionVariables describe the session or the desktop that a job is submitted from. A star leaves
// them out without a word.
var sessionVariables = strings.Fields(`
	_ PWD OLDPWD SHLVL HOSTNAME HOSTTYPE MACHTYPE OSTYPE TERM TERM_* COLORTERM COLUMNS LINES PS1 PS2 PROMPT_* HIST* INPUTRC
	MAIL MAILCHECK LS_COL* LSCOL* LESS* DISPLAY WAYLAND_* WINDOWID XAUTHORITY XDG_* DBUS_* DESKTOP_* GDM* GNOME_* GTK_*
	KDE_* QT_* XMODIFIERS SESSION_MANAGER SSH_* GPG_* TMUX* STY VTE_* KONSOLE_* VSCODE_* BASH* ZSH* SUDO_* TMPDIR TMP
	TEMP INVOCATION_ID JOURNAL_STREAM which_declare SLURM_* ROTA_*
`)

// secretWords are the parts of names, in capitals, by which a variable is taken for a secret.
var secretWords = strings.Fields(`TOKEN SECRET PASSW PASSPHRASE _PASS _PWD KEY CREDENTIAL AUTH COOKIE PRIVATE`)

// notSecret are usual variables with one of these words.
var notSecret = []string{"TOKENIZERS_PARALLELISM"}

// secretValue matches private keys, the tokens of well-known services, and addresses with a
// password.
var secretValue = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY|://[^/\s:@]+:[^/\s@]+@|` +
	`\b(gh[pousr]_|github_pat_|glpat-|hf_|sk-|xox[abprs]-|AKIA|ASIA|AIza|eyJ[\w-]+\.eyJ)[\w-]{10}`)

// exportRule is what becomes of a variable.
type exportRule int

const (
	notAsked  exportRule = iota
	copied               // to the job
	asSecret             // a star or pattern asked for it, and it may be a secret
	notUsual             // a star asked for it, and it is not usual: a star copies it if it is a path
	otherwise            // a star asked for it, and a job gets its own or none
)

// exportOf decides about a variable by the names and patterns that are to be copied. A name that
// stands there exactly is copied, whatever it is.
func exportOf(globs []string, name, value string) exportRule {
	if slices.Contains(globs, name) {
		return copied
	}
	star := false
	pattern := slices.ContainsFunc(globs, func(g string) bool {
		if g == "*" {
			star = true
			return false
		}
		return matchesAny([]string{g}, name)
	})
	own := strings.HasPrefix(name, "SLURM_") || strings.HasPrefix(name, "ROTA_")
	usual := matchesAny(usualVariables, name)
	switch {
	case !star && (!pattern || own):
		return notAsked
	case own:
		return otherwise
	case !pattern && !usual && matchesAny(sessionVariables, name):
		return otherwise
	case isSecret(name, value):
		return asSecret
	case pattern || usual:
		return copied
	}
	return notUsual
}

// asksFor reports whether a name or a pattern, other than a star, asks for a variable.
func asksFor(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(g string) bool { return g != "*" && matchesAny([]string{g}, name) })
}

func matchesAny(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(g string) bool {
		ok, err := path.Match(g, name)
		return err == nil && ok
	})
}

// isSecret reports whether a variable may be a secret, by its name or its value.
func isSecret(name, value string) bool {
	upper := strings.ToUpper(name)
	byName := slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(upper, w) })
	return byName && !slices.Contains(notSecret, name) || secretValue.MatchString(value)
}
