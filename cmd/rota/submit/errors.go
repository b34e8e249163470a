package submit

import (
	"fmt"
	"strings"
)

// aboutSpec is command.About for a job that has no id yet.
func aboutSpec(verb, name string, err error) error {
	if strings.HasPrefix(err.Error(), fmt.Sprintf("job %q: ", name)) {
		return err
	}
	return fmt.Errorf("%s %s: %w", verb, name, err)
}
