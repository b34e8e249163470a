package jobspec

import "strings"

// SecretFile returns the path of a secret in the container; "" if the secret is in a variable.
func (s *Secret) SecretFile() string {
	if s.File != "" || s.Env != "" {
		return s.File
	}
	return SecretsDir + s.Name
}

// SecretsDir is the container's directory for secrets; it is kept in memory.
const SecretsDir = "/run/rota/secrets/"

// ReservedTargets are directories of a container where a job may not mount anything, because
// programs or Rota need their content.
func ReservedTargets() []string {
	return []string{"/proc", "/sys", "/dev", "/run", "/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64"}
}

// withoutSlash removes slashes at the end of a path.
func withoutSlash(p string) string {
	if short := strings.TrimRight(p, "/"); short != "" {
		return short
	}
	return p
}
