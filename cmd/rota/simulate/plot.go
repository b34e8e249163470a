package simulate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/simulate/picture"
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
	return nil
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

// draw draws a picture of each workload, with a curve for each policy. If there are several workloads, the names
// of the files have those of the traces and their seeds.
func (s *simulation) draw(results []*sim.Result) error {
	if s.plot == "" {
		return nil
	}
	used := map[string]bool{}
	n := len(s.policies)
	for i := 0; i < len(results); i += n {
		runs := make([]picture.Run, n)
		for k, r := range results[i : i+n] {
			runs[k] = picture.Run{Name: policyOf(r), Result: r}
		}
		name, first := s.plot, results[i]
		title := fmt.Sprintf("%s, seed %d", first.Trace, first.Seed)
		if n == 1 {
			title += ", under " + runs[0].Name
		}
		if len(results) > n {
			name = pictureName(s.plot, first, used)
		}
		drawn, err := picture.Draw(title, runs)
		if err == nil {
			err = writePicture(name, drawn)
		}
		if err != nil {
			return fmt.Errorf("plot %s: %w", name, err)
		}
	}
	return nil
}

// pictureName returns the name of the file of one of several workloads, which none of the others has.
func pictureName(plot string, r *sim.Result, used map[string]bool) string {
	plain := strings.Map(func(c rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-=", c) {
			return c
		}
		return '_'
	}, filepath.Base(r.Trace))
	plain = plain[:min(len(plain), 60)] // of the 255 bytes of a file's name
	stem := fmt.Sprintf("%s-%s-seed%d", strings.TrimSuffix(plot, ".svg"), plain, r.Seed)
	name := stem + ".svg"
	for k := 2; used[name]; k++ {
		name = fmt.Sprintf("%s-%d.svg", stem, k)
	}
	used[name] = true
	return name
}

func writePicture(name string, text []byte) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil && isFile(name) {
		_ = os.Remove(name) // an incomplete file is useless
	}
	return err
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}
