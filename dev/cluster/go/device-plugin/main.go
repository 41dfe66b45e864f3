// Command device-plugin advertises devices that do not exist, so that pods which ask for GPUs are scheduled and run. It
// ends with its standard input, because a signal from outside the node's namespaces would not reach it.
// usage: device-plugin RESOURCE COUNT, for example: device-plugin nvidia.com/gpu 4
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const socket = "octavo.sock"

type plugin struct {
	api.UnimplementedDevicePluginServer
	devices []*api.Device
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch names all devices once: none of them ever fails.
func (p *plugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	if err := stream.Send(&api.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Allocate tells a container its devices by the variable that NVIDIA's plugin sets.
func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ",")},
		})
	}
	return response, nil
}

func register(resource string) error {
	connection, err := grpc.NewClient("unix://"+api.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	request := &api.RegisterRequest{Version: api.Version, Endpoint: socket, ResourceName: resource}
	_, err = api.NewRegistrationClient(connection).Register(context.Background(), request, grpc.WaitForReady(true))
	return err
}

func serve(resource string, count int) error {
	p := &plugin{}
	for i := range count {
		p.devices = append(p.devices, &api.Device{ID: fmt.Sprintf("GPU-%d", i), Health: api.Healthy})
	}
	if err := os.RemoveAll(api.DevicePluginPath + socket); err != nil { // an earlier run's
		return err
	}
	listener, err := net.Listen("unix", api.DevicePluginPath+socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, p)
	go func() {
		if err := register(resource); err != nil {
			log.Fatal(err)
		}
	}()
	return server.Serve(listener)
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: device-plugin RESOURCE COUNT")
	}
	count, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatalf("COUNT: expected a number, got %q", os.Args[2])
	}
	go func() { log.Fatal(serve(os.Args[1], count)) }()
	_, _ = io.Copy(io.Discard, os.Stdin)
}
