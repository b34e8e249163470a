package hclfile

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rota-hpc/rota/jobspec/hclfile/functions"
)

// ReadFile implements [Source]. A file is read once, so that it is the same everywhere.
func (r *reader) ReadFile(name string) ([]byte, error) {
	clean := path.Clean(name)
	switch {
	case r.opts.ReadFile == nil:
		return nil, errors.New("files cannot be read here")
	case path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../"):
		return nil, fmt.Errorf("%q is not below the directory of the job file", name)
	}
	if text, ok := r.read[clean]; ok {
		return text, nil
	}
	text, err := r.opts.ReadFile(clean)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read file: %w", err)
	case len(text) > functions.MaxFile:
		return nil, fmt.Errorf("%q has %d bytes; at most %d are read", name, len(text), functions.MaxFile)
	case !utf8.Valid(text):
		return nil, fmt.Errorf("%q is not UTF-8 text", name)
	}
	r.read[clean] = text
	return text, nil
}

func (r *reader) env(name string) (string, error) {
	if !slices.Contains(r.opts.AllowEnv, name) {
		return "", fmt.Errorf("the environment variable %s may not be read: allow it with --allow-env %s", name, name)
	}
	if r.opts.Getenv == nil {
		return "", errors.New("environment variables are not available here")
	}
	text, ok := r.opts.Getenv(name)
	if !ok {
		return "", fmt.Errorf("%s is not set", name)
	}
	return text, nil
}
