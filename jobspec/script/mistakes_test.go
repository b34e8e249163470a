package script

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec/rules"
)

// mistakes are scripts and flags with mistakes; testdata/mistakes.txt has every message.
var mistakes = []struct {
	name, src string
	flags     []Flag
	args      []string
}{
	{name: "empty"},
	{name: "no shebang", src: "#SBATCH -N 1\npython train.py\n"},
	{name: "shebang without a program", src: "#!\necho\n"},
	{name: "nul byte", src: "#!/bin/sh\necho a\x00b\n"},
	{name: "an executable", src: "\x7fELF\x02\x01\x01\x00"},
	{name: "latin-1", src: "#!/bin/sh\n# caf\xe9\necho\n"},
	{name: "too large", src: "#!/bin/sh\n" + strings.Repeat("#", 1<<20)},
	{name: "late", src: "#!/bin/bash\n#SBATCH -N 1\nmodule load cuda\n#SBATCH --gpus=8\n" +
		"cat <<EOF\n#SBATCH --text\nEOF\n##SBATCH --off\n#ROTA --class=te\n"},
	{name: "characters that turn the text around", src: "#!/bin/bash\n#SBATCH --\u202egnirts\u009b31m=1\n"},
	{name: "late behind what is no here-document",
		src: "#!/bin/bash\necho \"a << EOF\"\n#SBATCH -c 4\necho $((1\n<< B))\n#SBATCH -c 5\n"},
	{name: "late in Python", src: "#!/usr/bin/env python3\nx = a << b\n#SBATCH -c 4\n"},
	{name: "here-documents", src: "#!/bin/tcsh\ncat << EOF\n#SBATCH -c 4\n\tEOF\n#SBATCH -c 5\nEOF\n#SBATCH -c 6\n"},
	{name: "no blank", src: "#!/bin/bash\n#SBATCH: -c 2\n#SBATCH\u00a0-c 2\n#SBATCHES -c 2\n#SLURM -c 2\n"},
	{name: "numbers that contradict each other", src: "#!/bin/bash\n#SBATCH --gpus=3 --gpus-per-task=2\n./x\n"},
	{name: "more tasks than GPUs", src: "#!/bin/bash\n#SBATCH --gpus=2 -n4 --gpus-per-task=1\n./x\n"},
	{name: "unknown number of tasks", src: "#!/bin/bash\n#SBATCH --gpus-per-node=4 --gpus-per-task=2\n./x\n"},
	{name: "nodes that do not divide GPUs", src: "#!/bin/bash\n#SBATCH -N2 --gpus=3 --gpus-per-node=2\n./x\n"},
	{name: "open quote", src: "#!/bin/bash\n#SBATCH --comment=\"half\n#SBATCH --job-name='a\n"},
	{name: "continued", src: "#!/bin/bash\n#SBATCH --gpus=8 \\\n#SBATCH --mem=1G\n"},
	{name: "word", src: "#!/bin/bash\n#SBATCH -N 1 gpu\n"},
	{name: "unknown long", src: "#!/bin/bash\n#SBATCH --gpu=1 --gppus=1 --mem-per-node=1G --frobnicate\n"},
	{name: "unknown short", src: "#!/bin/bash\n#SBATCH -Z 1\n#SBATCH -time=1\n"},
	{name: "ambiguous", src: "#!/bin/bash\n#SBATCH --no=1 --gpus-p=2 --ex\n"},
	{name: "prefix", src: "#!/bin/bash\n#SBATCH --part=gpu --ntasks-per-n=2 --tim=10\n"},
	{name: "no value", src: "#!/bin/bash\n#SBATCH --time\n#SBATCH -N\n#SBATCH --job-name=\n"},
	{name: "value of a switch", src: "#!/bin/bash\n#SBATCH --hold=yes\n"},
	{name: "numbers", src: "#!/bin/bash\n#SBATCH -N two -n 0 -c -3 --ntasks-per-node=99999999999\n"},
	{name: "times", src: "#!/bin/bash\n#SBATCH --time=1:2:3:4\n"},
	{name: "time too long", src: "#!/bin/bash\n#SBATCH --time=99999-0\n"},
	{name: "memory", src: "#!/bin/bash\n#SBATCH --mem=64X\n#SBATCH --mem-per-cpu=0\n"},
	{name: "all memory", src: "#!/bin/bash\n#SBATCH --mem=0 --mem-per-gpu=4G --gres=gpu:1\n"},
	{name: "all at once", src: "#!/bin/bash\n#SBATCH --mem=1k --time=x -C a^b --nonsense\n#SBATCH -n 1024 -c 8\n"},
	{name: "too little memory", src: "#!/bin/bash\n#SBATCH --mem=1k\n"},
	{name: "too many cores", src: "#!/bin/bash\n#SBATCH -n 1024\n#SBATCH -c 8\n"},
	{name: "too many nodes and gpus", src: "#!/bin/bash\n#SBATCH -N 5000 --gres=gpu:100\nsrun x\n"},
	{name: "gpu of no model", src: "#!/bin/bash\n#SBATCH --gres=gpu:-1\n#SBATCH --gpus=a100=2:1\n"},
	{name: "two memories", src: "#!/bin/bash\n#SBATCH --mem=1G --mem-per-cpu=1G\n"},
	{name: "memory for no gpu", src: "#!/bin/bash\n#SBATCH --mem-per-gpu=1G --cpus-per-gpu=4\n"},
	{name: "two cores", src: "#!/bin/bash\n#SBATCH -c 2 --cpus-per-gpu=4 -G 1\n"},
	{name: "gres", src: "#!/bin/bash\n#SBATCH --gres=gpu:a100:x\n"},
	{name: "gres shares", src: "#!/bin/bash\n#SBATCH --gres=shard:2\n"},
	{name: "gres nothing", src: "#!/bin/bash\n#SBATCH --gres=,\n"},
	{name: "gres models", src: "#!/bin/bash\n#SBATCH --gres=gpu:a100:1,gpu:v100:1 --gpus=a:1,b:2\n"},
	{name: "gpu models", src: "#!/bin/bash\n#SBATCH --gpus-per-node=a100:2 --gpus=v100:2\n"},
	{name: "gpu sums", src: "#!/bin/bash\n#SBATCH -N 2 --gpus-per-node=2 --gpus=8\nsrun x\n"},
	{name: "gpu per task", src: "#!/bin/bash\n#SBATCH -n 4 --gpus-per-node=2 --gpus-per-task=1\n"},
	{name: "uneven gpus", src: "#!/bin/bash\n#SBATCH -N 2 -G 3\nsrun x\n"},
	{name: "uneven tasks", src: "#!/bin/bash\n#SBATCH -N 3 -n 10\nsrun x\n"},
	{name: "tasks per node", src: "#!/bin/bash\n#SBATCH -N 2 -n 10 --ntasks-per-node=2\nsrun x\n"},
	{name: "fewer tasks than nodes", src: "#!/bin/bash\n#SBATCH -N 4 -n 1\n./x\n"},
	{name: "nodes", src: "#!/bin/bash\n#SBATCH -N 4-2\n"},
	{name: "whole nodes", src: "#!/bin/bash\n#SBATCH --exclusive\n./x\n"},
	{name: "nodes open", src: "#!/bin/bash\n#SBATCH -N 1-4\n#SBATCH --nodes=1,3\n"},
	{name: "array", src: "#!/bin/bash\n#SBATCH --array=0-99%x\n"},
	{name: "array overflow", src: "#!/bin/bash\n#SBATCH --array=0-99999999999999999999\n"},
	{name: "array too many", src: "#!/bin/bash\n#SBATCH --array=0-1000000\n"},
	{name: "array down", src: "#!/bin/bash\n#SBATCH --array=9-1\n"},
	{name: "dependency by number", src: "#!/bin/bash\n#SBATCH --dependency=123\n"},
	{name: "dependency kinds", src: "#!/bin/bash\n#SBATCH --dependency=aftrok:1\n"},
	{name: "dependency mixed marks", src: "#!/bin/bash\n#SBATCH --dependency=afterok:1,afterok:2?afterok:3\n"},
	{name: "dependency any of types", src: "#!/bin/bash\n#SBATCH --dependency=afterok:1?afterany:3\n"},
	{name: "dependency any of pairs", src: "#!/bin/bash\n#SBATCH --dependency=afterok:1:2?afterok:3\n"},
	{name: "dependency target", src: "#!/bin/bash\n#SBATCH --dependency=afterok:train\n"},
	{name: "dependency delay", src: "#!/bin/bash\n#SBATCH --dependency=afterok:1+5\n"},
	{name: "dependency without", src: "#!/bin/bash\n#SBATCH --dependency=afterok:\n"},
	{name: "dependency singleton", src: "#!/bin/bash\n#SBATCH --dependency=singleton:4\n"},
	{name: "dependency expand", src: "#!/bin/bash\n#SBATCH --dependency=expand:4\n"},
	{name: "aftercorr without array", src: "#!/bin/bash\n#SBATCH --dependency=aftercorr:4\n"},
	{name: "invalid dependency", src: "#!/bin/bash\n#SBATCH --kill-on-invalid-dep=maybe\n"},
	{name: "begin", src: "#!/bin/bash\n#SBATCH --begin=someday\n"},
	{name: "begin far", src: "#!/bin/bash\n#SBATCH --begin=now+99999999999weeks\n"},
	{name: "begin no date", src: "#!/bin/bash\n#SBATCH --begin=2026-02-30\n"},
	{name: "deadline passed", src: "#!/bin/bash\n#SBATCH --deadline=2020-01-01\n"},
	{name: "deadline too near", src: "#!/bin/bash\n#SBATCH --deadline=now+30minutes --time=60\n"},
	{name: "signal", src: "#!/bin/bash\n#SBATCH --signal=B:FOO@10\n"},
	{name: "signal seconds", src: "#!/bin/bash\n#SBATCH --signal=USR1@soon\n"},
	{name: "signal not before the limit", src: "#!/bin/bash\n#SBATCH -t 1 --signal=USR1@60\nsrun python train.py\n"},
	{name: "signal to", src: "#!/bin/bash\n#SBATCH --signal=X:USR1\n"},
	{name: "export", src: "#!/bin/bash\n#SBATCH --export=NONE,A=1\n"},
	{name: "export name", src: "#!/bin/bash\n#SBATCH --export=1A,ROTA_X=2\n"},
	{name: "constraint", src: "#!/bin/bash\n#SBATCH -C a&&b\n"},
	{name: "constraint of one rack", src: "#!/bin/bash\n#SBATCH -N 2 -C [rack1|rack2]\nsrun ./x\n"},
	{name: "constraint of some nodes", src: "#!/bin/bash\n#SBATCH -N 2 -C a*1&b*1\nsrun ./x\n"},
	{name: "constraint without parentheses", src: "#!/bin/bash\n#SBATCH -C a&b|c\n./x\n"},
	{name: "licences of a server", src: "#!/bin/bash\n#SBATCH -L matlab@flexlm:2\n./x\n"},
	{name: "licences without a name", src: "#!/bin/bash\n#SBATCH -L matlab:2,:1\n./x\n"},
	{name: "licences without a number", src: "#!/bin/bash\n#SBATCH -L matlab:some\n./x\n"},
	{name: "mail", src: "#!/bin/bash\n#SBATCH --mail-type=END,FAILED\n"},
	{name: "nodelist", src: "#!/bin/bash\n#SBATCH -w gpu[01 -x /etc/hosts\n"},
	{name: "nodelist count", src: "#!/bin/bash\n#SBATCH -w gpu[01-04]\n./x\n"},
	{name: "exclusive", src: "#!/bin/bash\n#SBATCH --exclusive=user\n"},
	{name: "exclusive else", src: "#!/bin/bash\n#SBATCH --exclusive=always\n"},
	{name: "open mode", src: "#!/bin/bash\n#SBATCH --open-mode=w\n"},
	{name: "output letter", src: "#!/bin/bash\n#SBATCH -o %q.out\n"},
	{name: "input", src: "#!/bin/bash\n#SBATCH -i data.txt\n"},
	{name: "queues", src: "#!/bin/bash\n#SBATCH -p gpu,cpu\n"},
	{name: "class", src: "#!/bin/bash\n#ROTA --class=long\n"},
	{name: "qos", src: "#!/bin/bash\n#SBATCH --qos=long\n"},
	{name: "priority", src: "#!/bin/bash\n#SBATCH --priority=TOP\n"},
	{name: "kill on bad exit", src: "#!/bin/bash\n#SBATCH -K2\n"},
	{name: "image", src: "#!/bin/bash\n#SBATCH --container-image=docker://alpine\n"},
	{name: "image file", src: "#!/bin/bash\n#SBATCH --container-image=/images/a.sqsh\n"},
	{name: "mounts", src: "#!/bin/bash\n#SBATCH --container-mounts=/a:/b:ro:z\n"},
	{name: "mount flags", src: "#!/bin/bash\n#SBATCH --container-mounts=/a:/b:umask=0\n"},
	{name: "wrap", src: "#!/bin/bash\n#SBATCH --wrap=ls\n"},
	{name: "refused", src: "#!/bin/bash\n#SBATCH --time-min=10 --nodefile=x --uid=ada --pty --container-save=/x\n"},
	{name: "mail", src: "#!/bin/bash\n#SBATCH --mail-type=end,FOO --mail-user=\n"},
	{name: "ignored", src: "#!/bin/bash\n#SBATCH -B 2:8:1 --mpi=pmix --switches=1@10 -s -O -v --mail-type=ALL\n"},
	{name: "colon in a script", src: "#!/bin/bash\n#SBATCH -N 1 : -N 2\n"},
	{name: "hetjob with flags of the job", src: "#!/bin/bash\n#SBATCH -p a -t 10 -J x\n#SBATCH hetjob\n" +
		"#SBATCH -p b -t 20 -J x --time-min=3 --hint=compute_bound\n"},
	{name: "hetjob of an array", src: "#!/bin/bash\n#SBATCH -a 0-3\n#SBATCH hetjob\n"},
	{name: "hetjob with too much", src: "#!/bin/bash\n#SBATCH -c 4\n#SBATCH hetjob\n#SBATCH -c 999999 --mem=x\n"},
	{name: "hetjob of many", src: "#!/bin/bash\n" + strings.Repeat("#SBATCH hetjob\n", 300)},
	{name: "look-alikes", src: "#!/bin/bash\n#PBS -l nodes=1\n#BSUB -n 4\n#sbatch -N 2\n  #SBATCH -N 2\n#$ -cwd\n"},
	{name: "step image of a variable", src: "#!/bin/bash\nsrun --container-image=$IMAGE ./x\n"},
	{name: "two images", src: "#!/bin/bash\n#SBATCH --container-image=/a\nsrun --container-image=/b ./x\n"},
	{name: "images of two steps", src: "#!/bin/bash\nsrun --container-image=/a ./x\nsrun --container-image /b ./x\n"},
	{name: "tasks that share gpus", src: "#!/bin/bash\n#SBATCH -G 2 --ntasks-per-gpu=2 -m plane=2\n./x\n"},
	{name: "python with arguments", src: "#!/usr/bin/env python3\nprint(1)\n", args: []string{"a"}},
	{name: "command line", src: "#!/bin/bash\necho\n",
		flags: give("mem=x", "nonsense", "time-min=3")},
	{name: "te for long", src: "#!/bin/bash\n#SBATCH -q te -t 5-0 -G 32\n./x\n"},
	{name: "many flags", src: "#!/bin/bash\n#SBATCH " + strings.Repeat("-H ", 2000) + "\n"},
	{name: "control characters", src: "#!/bin/bash\n#SBATCH --\x1b[31mred=1\n"},
}

func TestMistakes(t *testing.T) {
	var all strings.Builder
	for _, m := range mistakes {
		r := Read([]byte(m.src), Options{Name: "x.sh", Dir: "/home/ada", Flags: m.flags, Args: m.args, Clock: clock()})
		if len(r.Problems) == 0 && m.name != "prefix" {
			t.Errorf("%s: nothing is wrong with it", m.name)
		}
		if (r.Job == nil) != r.Problems.Has(Mistake) {
			t.Errorf("%s: there is a job: %v, and a mistake: %v", m.name, r.Job != nil, r.Problems.Has(Mistake))
		}
		fmt.Fprintf(&all, "=== %s\n%s", m.name, r.Problems.Format("x.sh"))
		if r.Job != nil {
			if bad := rules.Validate(r.Job); len(bad) > 0 {
				t.Errorf("%s: the job breaks rules: %v", m.name, bad)
			}
		}
	}
	golden(t, "testdata/mistakes.txt", all.String())
}

// TestEveryCodeIsShown fails when no golden file shows a code.
func TestEveryCodeIsShown(t *testing.T) {
	src, err := os.ReadFile("problem.go")
	if err != nil {
		t.Fatal(err)
	}
	shown, err := os.ReadFile("testdata/mistakes.txt")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`= "(SB-\d+)"`).FindAllStringSubmatch(string(src), -1)
	if len(codes) < 15 {
		t.Fatalf("%d codes found", len(codes))
	}
	for _, code := range codes {
		if code[1] != CodeUnclear && !strings.Contains(string(shown), "("+code[1]+")") { // that is of paths, elsewhere
			t.Errorf("no golden file shows %s", code[1])
		}
	}
}

// TestNoFlagIsIgnored gives each flag alone: it changes the job, or leads to a problem.
func TestNoFlagIsIgnored(t *testing.T) {
	values := map[string]string{
		"job-name": "x", "partition": "q", "account": "a", "qos": "te", "priority": "7", "time": "10", "begin": "now+1hour",
		"deadline": "tomorrow", "dependency": "afterok:1",
		"kill-on-invalid-dep": "no", "array": "1-3", "chdir": "sub", "output": "a.out", "error": "a.err", "input": "f",
		"open-mode": "truncate", "export": "A", "constraint": "f",
		"nodelist": "n1", "exclude": "n2", "signal": "USR1", "comment": "c", "container-image": "/i",
		"container-mounts": "/a:/b", "container-workdir": "/w", "nodes": "1-2",
		"ntasks": "2", "ntasks-per-node": "2", "ntasks-per-gpu": "2", "cpus-per-task": "2", "cpus-per-gpu": "2",
		"mincpus": "2", "mem": "1G", "mem-per-cpu": "1G", "mem-per-gpu": "1G",
		"gpus": "2", "gpus-per-node": "2", "gpus-per-task": "2", "gres": "gpu:2", "gpu-bind": "closest",
		"kill-on-bad-exit": "0", "clusters": "dgx",
	}
	src := []byte("#!/bin/bash\n./x\n")
	job := func(flags ...Flag) (string, Result) {
		r := Read(src, Options{Name: "x.sh", Dir: "/home/ada", Clock: clock(), Flags: flags})
		if r.Job == nil {
			return "", r
		}
		b, err := r.Job.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		return string(b) + fmt.Sprint(r.Wait, r.Parsable, r.TestOnly, r.Quiet, r.Clusters), r
	}
	bare, _ := job()
	for _, spec := range Flags() {
		if spec.Name == "requeue" || spec.Name == "wrap" {
			continue // the default, and a flag that replaces the script
		}
		got, r := job(Flag{Name: spec.Name, Value: cmp.Or(values[spec.Name], "1"), Has: spec.Takes != Nothing})
		if got == bare && len(r.Problems) == 0 {
			t.Errorf("--%s changes nothing, and nothing is said about it", spec.Name)
		}
		if spec.Honoured() && spec.Usage == "" || !spec.Honoured() && spec.instead == "" {
			t.Errorf("--%s: nothing is written about it", spec.Name)
		}
	}
}

func TestFlagsAreDistinct(t *testing.T) {
	checkDistinct(t, Flags())
	checkDistinct(t, SrunTable())
}

func checkDistinct(t *testing.T, flags []Spec) {
	t.Helper()
	names, letters, variables := map[string]bool{}, map[byte]bool{}, map[string]bool{}
	for _, s := range flags {
		for _, name := range s.names() {
			if names[name] {
				t.Errorf("--%s is there twice", name)
			}
			names[name] = true
		}
		if s.Short != 0 && letters[s.Short] {
			t.Errorf("-%c is there twice", s.Short)
		}
		letters[s.Short] = true
		if s.Env != "" && variables[s.Env] {
			t.Errorf("%s is there twice", s.Env)
		}
		variables[s.Env] = true
	}
}
