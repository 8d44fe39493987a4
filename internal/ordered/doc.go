// Package ordered works on parts of something in parallel and hands on the results in their order.
package ordered
