package oci

import (
	"fmt"
	"path"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/oci/launch"
)

// SecretFile returns where a task finds a secret in its container. A place outside of the private
// directory for secrets is refused, because it might be on a disk.
func SecretFile(s jobspec.Secret) (string, error) {
	if s.File == "" {
		return path.Join(launch.SecretsDir, s.Name), nil
	}
	if s.File != path.Clean(s.File) || path.Dir(s.File) != launch.SecretsDir {
		return "", fmt.Errorf("secret %s: file %q is not in %s, the directory in memory for secrets; leave file "+
			"out, or name a file in that directory", s.Name, s.File, launch.SecretsDir)
	}
	return s.File, nil
}

// secretVariables returns the variables whose values are read from secrets.
func secretVariables(task *jobspec.Task) ([]launch.Secret, error) {
	var list []launch.Secret
	for _, s := range task.Secrets {
		file, err := SecretFile(s)
		if err != nil {
			return nil, err
		}
		if s.Env != "" {
			list = append(list, launch.Secret{Env: s.Env, File: file})
		}
	}
	return list, nil
}
