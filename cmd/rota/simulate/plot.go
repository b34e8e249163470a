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

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/controld/sim"
)

// readPlot reads --plot.
func (s *simulation) readPlot(name string) error {
	if !strings.HasSuffix(name, ".svg") {
		return exit.Usagef("--plot %s: the name must end in .svg", name)
	}
	if err := checkOutput("--plot", name); err != nil {
		return err
	}
	s.plot, s.setup.Spans = name, true
	_, err := findPlotter()
	return err
}

// checkOutput refuses a file that cannot be written, before the replay, which may take hours.
func checkOutput(flag, name string) error {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return exit.Usagef("%s %s is a directory", flag, name)
	}
	dir := filepath.Dir(name)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return exit.Usagef("%s %s: no directory %s", flag, name, dir)
	}
	return nil
}

// draw plots every result. With several results, the file names get numbers.
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

// plotter is a separate program, because its plotting library would slow down the start of all
// commands.
const plotter = "rota-plot"

func (s *simulation) drawOne(ctx context.Context, name string, r *sim.Result) error {
	program, err := findPlotter()
	if err != nil {
		return err
	}
	input, err := json.Marshal(map[string]any{"result": r, "story": r.Story})
	if err != nil {
		return err
	}
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, program)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &complaint
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(complaint.String()))
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(out.Bytes())
	if err = errors.Join(err, f.Close()); err != nil && isFile(name) {
		_ = os.Remove(name) // an incomplete file is useless
	}
	return err
}

// findPlotter searches beside this program, then in PATH.
func findPlotter() (string, error) {
	if self, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(self), plotter); isFile(beside) {
			return beside, nil
		}
	}
	path, err := exec.LookPath(plotter)
	if err != nil {
		return "", fmt.Errorf("cannot find the program %s, neither beside rota nor in PATH: %w", plotter, err)
	}
	return path, nil
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}
