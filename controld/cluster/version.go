package cluster

// LatestVersion is the greatest cluster version that this program knows: 1 has the kinds of the first release, 2 those with arrays, several
// groups and dependencies, 3 those with elastic groups. A leader uses the kinds of Config.Version, and raises that when every controller knows
// the next.
const LatestVersion = 3
