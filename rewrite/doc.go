// Package rewrite makes a new snapshot from one that is there: in another format, with other key groups, or with other content.
package rewrite
