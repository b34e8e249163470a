package sim

import "slices"

// PolicyKeys are the parameters that a policy can be given, in order; nil if there is no such policy.
func PolicyKeys(name string) []string {
	i := slices.IndexFunc(policyRows, func(r policyRow) bool { return r.name == name })
	if i < 0 {
		return nil
	}
	keys := make([]string, len(policyRows[i].keys))
	for k := range keys {
		keys[k] = policyRows[i].keys[k].name
	}
	slices.Sort(keys)
	return keys
}
