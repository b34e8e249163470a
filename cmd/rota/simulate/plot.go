package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/controld/sim"
)

func (s *simulation) readPlot(*cli.Context) error {
	if s.plot == "" {
		return nil
	}
	if !strings.HasSuffix(s.plot, ".svg") {
		return exit.Usagef("--plot %s: only SVG is drawn; give it a name that ends in .svg", s.plot)
	}
	// What could keep it from being drawn is told now rather than after hours of replaying.
	dir := filepath.Dir(s.plot)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return exit.Usagef("--plot %s: there is no directory %s", s.plot, dir)
	}
	if info, err := os.Stat(s.plot); err == nil && info.IsDir() {
		return exit.Usagef("--plot %s is a directory", s.plot)
	}
	s.setup.Spans = true
	_, err := findPlotter()
	return err
}

// draw makes the plot of every result: the first one is called as the user says, others get a number.
func (s *simulation) draw(ctx context.Context, results []*sim.Result) error {
	if s.plot == "" {
		return nil
	}
	for i, r := range results {
		name := s.plot
		if len(results) > 1 {
			name = fmt.Sprintf("%s-%d.svg", strings.TrimSuffix(s.plot, ".svg"), i+1)
		}
		if err := s.drawOne(ctx, name, r); err != nil {
			return fmt.Errorf("plot %s: %w", name, err)
		}
	}
	return nil
}

// plotter is the program that draws: a library for plots would make every other command start more slowly.
const plotter = "rota-plot"

func (s *simulation) drawOne(ctx context.Context, name string, r *sim.Result) error {
	program, err := findPlotter()
	if err != nil {
		return err
	}
	told, err := json.Marshal(map[string]any{"result": r, "story": r.Story})
	if err != nil {
		return err
	}
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, program)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(told), &out, &complaint
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(complaint.String()))
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(out.Bytes())
	if err = errors.Join(err, f.Close()); err != nil && isFile(name) {
		_ = os.Remove(name) // half of it is of no use
	}
	return err
}

// findPlotter looks beside this program, then where programs are.
func findPlotter() (string, error) {
	if self, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(self), plotter); isFile(beside) {
			return beside, nil
		}
	}
	path, err := exec.LookPath(plotter)
	if err != nil {
		return "", fmt.Errorf("%s draws, and it is neither beside rota nor in PATH: %w", plotter, err)
	}
	return path, nil
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}
