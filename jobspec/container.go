package jobspec

import "strings"

// SecretFile is where a secret that goes into no variable is found in the container.
func (s *Secret) SecretFile() string {
	if s.File != "" || s.Env != "" {
		return s.File
	}
	return SecretsDir + s.Name
}

// SecretsDir is the directory of a container in which its secrets lie. It is in memory.
const SecretsDir = "/run/rota/secrets/"

// ReservedTargets are the directories of a container in which nothing can be mounted, because the
// program or Rota itself needs what is there.
func ReservedTargets() []string {
	return []string{"/proc", "/sys", "/dev", "/run", "/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64"}
}

// withoutSlash takes off what stands behind the last name of a path.
func withoutSlash(p string) string {
	if short := strings.TrimRight(p, "/"); short != "" {
		return short
	}
	return p
}
