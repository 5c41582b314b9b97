// SPDX-License-Identifier: MIT
// otlp_receiver ADDRESS: the receiver of the OpenTelemetry Collector, listening at this address. Of each profile that it takes it
// prints one line of JSON: the process's attributes, the sample type, and the sum of the values by function.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/collector/receiver/xreceiver"
)

type line struct {
	Attributes map[string]any
	Type       string
	Sums       map[string]int64 // "": the total
}

func take(_ context.Context, all pprofile.Profiles) error {
	tables := all.Dictionary()
	text := tables.StringTable()
	for _, resource := range all.ResourceProfiles().All() {
		for _, scope := range resource.ScopeProfiles().All() {
			for _, profile := range scope.Profiles().All() {
				out := line{resource.Resource().Attributes().AsRaw(), text.At(int(profile.SampleType().TypeStrindex())), map[string]int64{}}
				for _, sample := range profile.Samples().All() {
					names := map[string]bool{"": true}
					for _, place := range tables.StackTable().At(int(sample.StackIndex())).LocationIndices().All() {
						for _, of := range tables.LocationTable().At(int(place)).Lines().All() {
							names[text.At(int(tables.FunctionTable().At(int(of.FunctionIndex())).NameStrindex()))] = true
						}
					}
					for name := range names {
						for _, value := range sample.Values().All() {
							out.Sums[name] += value
						}
					}
				}
				if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
					log.Fatal(err)
				}
			}
		}
	}
	return nil
}

func main() {
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	given := map[string]any{"protocols": map[string]any{"http": map[string]any{"endpoint": os.Args[1]}}}
	if err := confmap.NewFromStringMap(given).Unmarshal(config); err != nil {
		log.Fatal(err)
	}
	consumer, err := xconsumer.NewProfiles(take)
	if err != nil {
		log.Fatal(err)
	}
	receiver, err := factory.(xreceiver.Factory).CreateProfiles(context.Background(), receivertest.NewNopSettings(factory.Type()), config, consumer)
	if err != nil {
		log.Fatal(err)
	}
	if err = receiver.Start(context.Background(), componenttest.NewNopHost()); err != nil {
		log.Fatal(err)
	}
	select {}
}
