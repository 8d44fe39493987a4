// Package storage holds objects by URI: an object is a file on local disk, in memory or in an S3 bucket, and is either whole or not there.
package storage
