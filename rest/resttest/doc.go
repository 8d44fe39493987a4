// Package resttest has what real job managers of Flink answered over REST, and a server that answers so again.
package resttest
