package main

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
)

func TestReorder(t *testing.T) {
	all := commands()
	for _, c := range []struct{ in, want string }{
		{"logs 3 -f", "logs --follow -- 3"},
		{"logs -f 3", "logs --follow -- 3"},
		{"logs 3 --tail 5 --follow", "logs --tail=5 --follow -- 3"},
		{"submit f.hcl -var a=1", "submit --var=a=1 -- f.hcl"},
		{"submit -var=a=1 - --hold", "submit --var=a=1 --hold -- -"},
		{"submit -N1 -t1:00:00 --gres gpu:a100:4 -o %x-%j.out train.sh -N2 --lr 3",
			"submit --nodes=1 --time=1:00:00 --gres=gpu:a100:4 --output=%x-%j.out -- train.sh -N2 --lr 3"},
		{"submit --part gpu --exclusive --queue=b -K0 -HW x.sbatch",
			"submit --partition=gpu --exclusive= --partition=b --kill-on-bad-exit=0 --hold --wait -- x.sbatch"},
		{"submit --exclusive=user -K train.sh", "submit --exclusive=user --kill-on-bad-exit= -- train.sh"},
		{"submit -Hp gpu train.sh -h", "submit --hold --partition=gpu -- train.sh -h"},
		{"submit --wrap ls -c 4", "submit --wrap=ls --cpus-per-task=4 --"},
		{"submit f.hcl --array 0-3", "submit --array=0-3 -- f.hcl"},
		{"-o json submit train.sh -o x", "submit --output=json -- train.sh -o x"},
		{"convert -J a train.slurm --hold", "convert --job-name=a -- train.slurm --hold"},
		{"submit -N1 : -N2 --gres=gpu:4 train.sh -h", "submit --nodes=1 -- : -N2 --gres=gpu:4 train.sh -h"},
		{"submit -- train.sh --hold", "submit -- train.sh --hold"},
		{"--addr http://h:1 queue --me", "queue --addr=http://h:1 --me --"},
		{"-o json queue", "queue --output=json --"},
		{"--utc hist", "hist --utc --"},
		{"run -G 2 -- ls -l", "run --gpus=2 -- ls -l"},
		{"run -G2 -N1 ls -l --addr x", "run --gpus=2 --nodes=1 -- ls -l --addr x"},
		{"run -- -odd", "run -- -odd"},
		{"run a -- b", "run -- a -- b"},
		{"dev --nodes 2 -- rota queue -l", "dev --nodes=2 -- rota queue -l"},
		{"cancel -- -3", "cancel -- -3"},
		{"q -l", "queue --long --"},
		{"queue -h", "help -- queue"},
		{"--help", "help"},
		{"-h", "help"},
		{"--version", "version"},
		{"queue -lr --stat PD", "queue --long --array --states=PD --"},
		{"cancel 1 --reason -f 2", "cancel --reason=-f -- 1 2"},
	} {
		_, got, err := command.Parse(strings.Fields(c.in), all)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: got %q, want %q", c.in, text, c.want)
		}
	}
}

func TestWrongCommandLines(t *testing.T) {
	s := rotatest.Session{Commands: commands, T: t, Addr: "http://127.0.0.1:1"}
	var all strings.Builder
	for _, c := range []string{
		"quue", "squeue", "frobnicate", "queue --usr ada", "queue --frobnicate", "queue --st PD", "queue -lz",
		"queue --me=maybe", "logs", "logs x", "logs 1 2", "logs 3 --tail", "cancel", "cancel 1 --me",
		"status", "status seven", "hold", "wait", "run", "run -G two ls", "run --mem lots ls", "run --time never ls",
		"run --env A ls", "run -N 0 ls", "submit", "submit a b",
		"submit x.sh", "submit missing.hcl", "queue extra", "nodes -o xml", "nodes -o jsn", "hist -S someday",
		"hist --limit 0", "validate", "completion", "completion tcsh", "help quue",
		"--frobnicate queue", "--utc", "dev --controllers 2", "dev --nodes 0", "queue --addr ftp://x", "events -j none",
		"plan", "logs 3 -o json", "submit x.sh -o json",
	} {
		got := s.Run(strings.Fields(c)...)
		want := exit.Usage
		if strings.HasPrefix(c, "run") || strings.HasPrefix(c, "wait") {
			want = exit.OwnUsage
		}
		if got.Code != want || got.Stdout != "" || got.Stderr == "" {
			t.Errorf("rota %s: code %d, want %d; stdout %q", c, got.Code, want, got.Stdout)
		}
		all.WriteString("$ rota " + c + "\n" + got.Stderr + "\n")
	}
	rotatest.Golden(t, *update, "usage.txt", all.String())
}

func TestEveryCommandHasHelp(t *testing.T) {
	s := rotatest.Session{Commands: commands, T: t}
	var all strings.Builder
	all.WriteString(s.Run("help").Stdout)
	for _, c := range commands() {
		got := s.Run(c.Name, "--help")
		if got.Code != 0 || !strings.Contains(got.Stdout, "Usage: rota "+c.Name) {
			t.Errorf("rota %s --help: %d %s", c.Name, got.Code, got.Stdout+got.Stderr)
		}
		all.WriteString("\n" + got.Stdout)
	}
	rotatest.Golden(t, *update, "help.txt", all.String())
}
