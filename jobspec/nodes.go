package jobspec

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/jobspec/hostlist"
)

// ExpandNodes returns the names that lists such as gpu[01-04] stand for, in their order.
func ExpandNodes(lists []string) ([]string, error) {
	var all []string
	for _, list := range lists {
		names, err := hostlist.Expand(list)
		switch {
		case err != nil:
			return nil, err
		case len(names) == 0:
			return nil, errors.New("a host list is empty")
		}
		for _, name := range names {
			if name == "" || len(name) > 253 || strings.ContainsAny(name, " \t\r\n\x00/") {
				return nil, fmt.Errorf("host list %q: %q is no name", list, name)
			}
		}
		if all = append(all, names...); len(all) > hostlist.MaxHosts {
			return nil, fmt.Errorf("host lists: more than %d hosts", hostlist.MaxHosts)
		}
	}
	return all, nil
}
